"""GPU-hours add up to what was held, however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from portal.accounts.models import User
from quotas import services
from quotas.ledger import rollup
from quotas.models import Price, QuotaNode
from scheduler import clock
from scheduler.core.types import JobSpec, QuotaTree
from scheduler.core.types import QuotaNode as CoreNode
from scheduler.models import Job
from scheduler.selectors.usage import By, used
from tests.scheduler.builders import charge_spans, row_of_job

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 4, 13, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOW = MONDAY + 14 * DAY


@pytest.fixture
def hold() -> Callable[..., Job]:
    """A job that held its GPUs for these spans (start, end or None), one an attempt."""
    numbers = count(1)
    people = {name: User.objects.create_user(name, f"{name}@example.com") for name in ("ada", "bob")}
    teams = {name: QuotaNode.objects.create(name=name) for name in ("vision", "speech")}

    def make(team: str, who: str, gpus: int, *spans: tuple[datetime, datetime | None], kind: str = "H100") -> Job:
        number = next(numbers)
        spec = JobSpec(f"{number:026}", team, gpus, "any", 2, 1, clock.to_ms(MONDAY))
        job = row_of_job(spec, teams[team], people[who])
        charge_spans(job, gpus, kind, spans)
        return job

    return make


def sums(*by: By, since: datetime = MONDAY, until: datetime = NOW, **more: Any) -> dict[Any, float]:
    rows = used(since, until, by, now=NOW, team_ids=more.pop("team_ids", None), limit=100, **more)
    names = ("team", "user", "gpu_type")
    return {
        tuple(x for x in (*(getattr(r, n) for n in names), r.start and r.start.date().isoformat()) if x): r.gpu_hours
        for r in rows
    }


def test_by_team_user_and_type(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 8, (MONDAY, MONDAY + HOUR), (MONDAY + 2 * HOUR, MONDAY + 5 * HOUR))
    hold("vision", "bob", 2, (MONDAY, MONDAY + HOUR), kind="A100")
    hold("speech", "bob", 1, (MONDAY, MONDAY + 10 * HOUR))
    assert sums(By.TEAM) == {("speech",): 10, ("vision",): 34}
    assert sums(By.USER) == {("ada@example.com",): 32, ("bob@example.com",): 12}
    assert sums(By.GPU_TYPE) == {("A100",): 2, ("H100",): 42}
    assert sums() == {(): 44}


def test_what_runs_over_midnight_or_the_week_counts_in_both(hold: Callable[..., Job]) -> None:
    sunday = MONDAY + 6 * DAY
    hold("vision", "ada", 4, (sunday + 20 * HOUR, sunday + 30 * HOUR))
    assert sums(By.DAY) == {("2026-04-19",): 16, ("2026-04-20",): 24}
    assert sums(By.TEAM, By.WEEK) == {("vision", "2026-04-13"): 16, ("vision", "2026-04-20"): 24}


def test_only_what_lies_between_is_counted(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 1, (MONDAY - DAY, MONDAY + DAY))
    assert sums(since=MONDAY, until=MONDAY + HOUR) == {(): 1}
    assert sums(By.WEEK, since=MONDAY, until=MONDAY + HOUR) == {("2026-04-13",): 1}
    assert sums(By.TEAM, since=MONDAY + 2 * DAY) == {}


def test_what_still_runs_counts_up_to_now(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 2, (NOW - 3 * HOUR, NOW - 2 * HOUR), (NOW - HOUR, None))
    assert sums(until=NOW + DAY) == {(): 4}


def test_only_teams_that_one_may_see_and_asks_for(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 1, (MONDAY, MONDAY + HOUR))
    hold("speech", "bob", 1, (MONDAY, MONDAY + HOUR))
    own = [QuotaNode.objects.get(name="speech").pk]
    assert sums(By.TEAM, team_ids=own) == {("speech",): 1}
    assert sums(By.TEAM, team_ids=[]) == {}
    assert sums(By.TEAM, teams=["vision"]) == {("vision",): 1}
    assert sums(By.TEAM, team_ids=own, teams=["vision"]) == {}


def test_a_job_counts_once_however_many_attempts(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 1, (MONDAY, MONDAY + HOUR), (MONDAY + HOUR, MONDAY + 2 * HOUR))
    (row,) = used(MONDAY, NOW, [By.TEAM], now=NOW, team_ids=None, limit=10)
    assert row.jobs == 1


def test_the_parts_add_up_to_the_whole(hold: Callable[..., Job]) -> None:
    for number in range(1, 30):
        start = MONDAY + number * 7 * HOUR
        team, who = ("vision", "ada") if number % 3 else ("speech", "bob")
        hold(team, who, number, (start, start + number * HOUR))
    whole = sums()[()]
    for by in ([By.DAY], [By.WEEK], [By.TEAM, By.DAY], [By.TEAM, By.USER, By.GPU_TYPE, By.WEEK]):
        assert sum(sums(*by).values()) == pytest.approx(whole, abs=0.01)


def test_sums_by_day_change_nothing_of_what_is_read(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 8, (MONDAY + 20 * HOUR, MONDAY + 30 * HOUR))
    before = sums(By.DAY), sums(since=MONDAY + 21 * HOUR, until=MONDAY + 25 * HOUR)
    assert rollup.roll_up()
    hold("speech", "bob", 2, (MONDAY + HOUR, MONDAY + 5 * HOUR))
    assert sums(By.DAY) == {("2026-04-13",): 40, ("2026-04-14",): 48}
    assert rollup.roll_up()
    assert not rollup.roll_up()
    assert sums(By.DAY) == {("2026-04-13",): 40, ("2026-04-14",): 48}
    assert before == ({("2026-04-13",): 32, ("2026-04-14",): 48}, {(): 32})
    assert sums(since=MONDAY + 21 * HOUR, until=MONDAY + 25 * HOUR) == {(): 32}


def test_a_node_has_what_the_teams_below_it_have(hold: Callable[..., Job]) -> None:
    tree = QuotaTree((CoreNode("org"), CoreNode("vision", "org", floor={"H100": 2}), CoreNode("speech", "org")))
    services.apply(tree, at=MONDAY - DAY)
    hold("vision", "ada", 3, (MONDAY, MONDAY + 2 * HOUR))
    hold("speech", "bob", 1, (MONDAY, MONDAY + HOUR))
    rows = used(MONDAY, NOW, [By.NODE], now=NOW, team_ids=None, limit=10)
    assert [(row.node, row.gpu_hours, row.floor_hours, row.burst_hours, row.lost_hours) for row in rows] == [
        ("org", 7, 4, 3, 0),
        ("speech", 1, 0, 1, 0),
        ("vision", 6, 4, 2, 0),
    ]


def test_each_day_has_its_price(hold: Callable[..., Job]) -> None:
    Price.objects.create(gpu_type="H100", since=(MONDAY - DAY).date(), gpu_hour=Decimal("2.50"))
    Price.objects.create(gpu_type="H100", since=(MONDAY + DAY).date(), gpu_hour=Decimal("3"))
    hold("vision", "ada", 1, (MONDAY + 22 * HOUR, MONDAY + 27 * HOUR))
    hold("speech", "bob", 1, (MONDAY, MONDAY + HOUR), kind="A100")
    rows = used(MONDAY, NOW, [By.TEAM], now=NOW, team_ids=None, limit=10)
    assert [(row.team, row.cost) for row in rows] == [("speech", None), ("vision", Decimal("14.00"))]
