"""GPU-hours add up to what was held, however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.core.types import JobSpec
from scheduler.models import Job, JobEvent
from scheduler.selectors.usage import By, used
from tests.scheduler.builders import row_of_job

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
        running = spans[-1][1] is None
        job = row_of_job(
            spec, teams[team], people[who], state="RUNNING" if running else "SUCCEEDED", attempt=len(spans)
        )
        for attempt, (start, end) in enumerate(spans, start=1):
            _tell(job, attempt, "bind", start, {"gpu_type": kind})
            if end is not None:
                _tell(job, attempt, "release", end, {})
        return job

    serial = count(1)

    def _tell(job: Job, attempt: int, name: str, at: datetime, detail: dict[str, Any]) -> None:
        revision = next(serial)
        JobEvent.objects.create(
            entry=str(revision),
            position=0,
            revision=revision,
            kind=name,
            at=at,
            job=job,
            attempt=attempt,
            detail=detail,
        )

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


def test_releases_are_found_by_an_index(hold: Callable[..., Job]) -> None:
    hold("vision", "ada", 1, (MONDAY, MONDAY + HOUR))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN SELECT 1 FROM scheduler_jobevent WHERE kind = 'release' AND at > %s", [MONDAY])
        plan = " ".join(line for (line,) in cursor.fetchall())
    assert "event_of_releases" in plan
