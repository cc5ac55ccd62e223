"""What is used of a budget, and whom it keeps out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portal.accounts.models import User
from quotas.models import Budget, QuotaNode
from scheduler import budgets
from scheduler.core.types import JobSpec
from tests.portal.people import make_tree
from tests.scheduler.builders import charge_spans, row_of_job

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


@pytest.fixture
def week() -> None:
    """Vision held 100 GPU-hours in May and 100 in March, speech 50 in April."""
    make_tree()
    ada = User.objects.create_user("ada", "ada@example.com")
    for number, (name, month, hours) in enumerate([("vision", 5, 25), ("vision", 3, 25), ("speech", 4, 12.5)]):
        team = QuotaNode.objects.get(name=name)
        job = row_of_job(JobSpec(f"{number:026}", name, 4, "H100", 2, 1, 0), team, ada)
        starts = datetime(2026, month, 10, tzinfo=UTC)
        charge_spans(job, 4, "H100", [(starts, starts + timedelta(hours=hours))])


def budget(node: str, period: str, hours: int | None, **more: Any) -> None:
    Budget.objects.create(
        node=QuotaNode.objects.get(name=node), period=period, gpu_hours=hours, at=NOW, reason="test", **more
    )


@pytest.mark.parametrize(
    ("node", "period", "hours", "used", "warns", "stops"),
    [
        pytest.param("vision", "month", 200, 100, False, False, id="the month counts from its first day"),
        pytest.param("vision", "month", 120, 100, True, False, id="past the warning"),
        pytest.param("vision", "month", 100, 100, True, True, id="at the stop"),
        pytest.param("research", "quarter", 160, 150, True, False, id="a node has what is below it, the whole quarter"),
        pytest.param("ads", "month", 10, 0, False, False, id="nothing used"),
        pytest.param("ads", "month", 0, 0, True, True, id="a budget of nothing is used up"),
    ],
)
def test_what_is_used(week: None, node: str, period: str, hours: int, used: float, warns: bool, stops: bool) -> None:
    budget(node, period, hours)
    (found,) = budgets.spent(NOW)
    assert (found.node, found.used_hours, found.warns, found.stops) == (node, used, warns, stops)


def test_the_newest_edit_is_in_force(week: None) -> None:
    budget("vision", "month", 10)
    budget("vision", "month", 1_000)
    assert [one.gpu_hours for one in budgets.spent(NOW)] == [1_000]
    budget("vision", "month", None)
    assert budgets.spent(NOW) == []


def test_a_stop_keeps_out_every_team_below(week: None) -> None:
    budget("research", "quarter", 100)
    for team in ("vision", "speech"):
        stopped = budgets.stopping(team, NOW)
        assert stopped is not None
        assert stopped.node == "research"
    assert budgets.stopping("ads", NOW) is None
    assert budgets.stopping("vision", datetime(2026, 7, 1, tzinfo=UTC)) is None


def test_one_that_never_stops_only_warns(week: None) -> None:
    budget("vision", "month", 10, stop_percent=None)
    assert budgets.stopping("vision", NOW) is None
    assert budgets.spent(NOW)[0].warns


@pytest.mark.parametrize(
    ("period", "at", "since", "until"),
    [
        ("month", datetime(2026, 12, 31, 23, tzinfo=UTC), (2026, 12), (2027, 1)),
        ("quarter", datetime(2026, 12, 1, tzinfo=UTC), (2026, 10), (2027, 1)),
        ("quarter", datetime(2026, 3, 31, tzinfo=UTC), (2026, 1), (2026, 4)),
    ],
)
def test_periods_are_of_utc(period: str, at: datetime, since: tuple[int, int], until: tuple[int, int]) -> None:
    assert budgets.period_of(period, at) == (datetime(*since, 1, tzinfo=UTC), datetime(*until, 1, tzinfo=UTC))
