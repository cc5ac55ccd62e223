"""Budgets of nodes of the quota tree in GPU-hours held, and what of them is used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from quotas import selectors as quotas
from quotas.models import Budget
from scheduler.selectors.usage import By, used

MOST_HOURS = 10_000_000_000
MOST_PERCENT = 1_000


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget in force with what was held of it from ``since`` on; the next period begins at ``until``."""

    node: str
    period: str
    gpu_hours: int
    warn_percent: int
    stop_percent: int | None
    used_hours: float
    since: datetime
    until: datetime

    @property
    def percent(self) -> float:
        """Of a budget of nothing everything is used."""
        return 100 * self.used_hours / self.gpu_hours if self.gpu_hours else 100.0

    @property
    def stops(self) -> bool:
        return self.stop_percent is not None and self.percent >= self.stop_percent

    @property
    def warns(self) -> bool:
        return self.stops or self.percent >= self.warn_percent


def period_of(period: str, at: datetime) -> tuple[datetime, datetime]:
    """The month or quarter of UTC that a moment lies in, and when the next one begins."""
    length = 1 if period == Budget.Period.MONTH else 3
    number = (at.astimezone(UTC).year * 12 + at.astimezone(UTC).month - 1) // length * length
    return _month(number), _month(number + length)


def _month(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)


def in_force() -> list[Budget]:
    """The newest edit of each node that has a budget. One query."""
    newest = Budget.objects.order_by("node_id", "-pk").distinct("node_id").select_related("node")
    return [row for row in newest if row.gpu_hours is not None]


def spent(now: datetime, nodes: Collection[str] | None = None) -> list[Spent]:
    """The budgets in force (of these nodes), by name. One query, and one for each kind of period among them."""
    return _used_of([row for row in in_force() if nodes is None or row.node.name in nodes], now)


def _used_of(rows: Sequence[Budget], now: datetime) -> list[Spent]:
    found = []
    for period in {row.period: None for row in rows}:
        since, until = period_of(period, now)
        some = [row for row in rows if row.period == period]
        names = [row.node.name for row in some]
        sums = used(since, until, [By.NODE], now=now, team_ids=None, nodes=names, limit=len(names))
        hours = {one.node: one.gpu_hours for one in sums}
        found += [_spent(row, hours.get(row.node.name, 0.0), since, until) for row in some]
    return sorted(found, key=lambda one: one.node)


def _spent(row: Budget, hours: float, since: datetime, until: datetime) -> Spent:
    assert row.gpu_hours is not None
    return Spent(row.node.name, row.period, row.gpu_hours, row.warn_percent, row.stop_percent, hours, since, until)


def stopping(team: str, now: datetime) -> Spent | None:
    """The budget, the team's own first, that keeps new jobs of the team out; None if none does."""
    stop = [row for row in in_force() if row.stop_percent is not None]
    if not stop:
        return None
    path = [node.name for node in quotas.path(quotas.tree_in_force(), team)] or [team]
    stopped = {one.node: one for one in _used_of([row for row in stop if row.node.name in path], now) if one.stops}
    return next((stopped[name] for name in path if name in stopped), None)
