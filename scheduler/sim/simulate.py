"""Runs a trace through the scheduler: the real decisions, commits and agents, weeks in a minute or two."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobIntent, Policy, QuotaTree
from scheduler.sim.fleets import Fleet
from scheduler.sim.log import Log, Writer
from scheduler.sim.metrics import DAY_S, Metrics, Report
from scheduler.sim.quota import written
from scheduler.sim.traces import Arrival
from scheduler.sim.world import Setting, World
from scheduler.store import codec

Progress = Callable[[int, int], None]
"""Called after every moment with the time in ms from the start, and how many jobs have come."""

Look = Callable[[int, Snapshot], None]
"""Called after every moment with the time in ms from the start, and the cluster as it is then."""


@dataclass(frozen=True)
class Plan:
    """What to simulate. It ends at ``until_ms`` from the start, whatever is running or waiting then.

    What happens within one ``tick_ms`` is looked at together, at its end. That is coarser than the live tick, which
    also runs at once when something changed: over weeks, waits are told in hours.
    """

    fleet: Fleet
    arrivals: Sequence[Arrival]
    policy: Policy
    until_ms: int
    tick_ms: int = 60_000


def whole_days_ms(arrivals: Sequence[Arrival]) -> int:
    """The end of the day on which the last job of the trace comes; midnight belongs to the day before it."""
    last_ms = arrivals[-1].spec.submitted_ms if arrivals else 0
    day_ms = DAY_S * 1000
    return max(1, -(-last_ms // day_ms)) * day_ms


def simulate(
    plan: Plan, writers: Sequence[Writer] = (), progress: Progress | None = None, look: Look | None = None
) -> Report:
    """Run it to its end.

    Args:
        writers: each gets every line of the decision log.
        look: may look at the cluster, and must leave it as it is.
    """
    with codec.records_kept(), _uncollected():
        return _Simulation(plan, writers).run(progress or (lambda _now_ms, _submitted: None), look)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Meanwhile nobody looks for cycles: records are many, long-lived and free of them, and looking costs an eighth."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Simulation:
    def __init__(self, plan: Plan, writers: Sequence[Writer]) -> None:
        self._plan = plan
        self._metrics = Metrics()
        log = Log(0, (self._metrics.take, *writers))
        quota = self._quota()
        log.fleet(0, plan.fleet.hosts, {} if quota.open else written(plan.fleet.quota), plan.fleet.settings.written)
        setting = Setting(
            0, plan.fleet.hosts, quota, plan.policy, plan.tick_ms, terse=True, usage_every_ms=DAY_S * 1000
        )
        self._world = World(setting, log)
        self._coming = list(reversed(plan.arrivals))

    def _quota(self) -> QuotaTree:
        """The fleet's tree, if it is the one of the trace's teams."""
        teams = {arrival.spec.team for arrival in self._plan.arrivals}
        return self._plan.fleet.tree() if teams <= self._plan.fleet.teams() else QuotaTree(open=True)

    def run(self, progress: Progress, look: Look | None = None) -> Report:
        self._world.settle()
        while (now_ms := self._next_ms()) is not None and now_ms <= self._plan.until_ms:
            self._world.put_forward(now_ms)
            while self._coming and self._coming[-1].spec.submitted_ms <= now_ms:
                self._submit(self._coming.pop())
            self._world.settle()
            if look is not None:
                look(now_ms, self._world.snapshot())
            progress(now_ms, len(self._plan.arrivals) - len(self._coming))
        self._world.clock.put_forward(self._plan.until_ms)
        lost = self._lost_gpu_hours()
        self._world.close()
        return self._metrics.report(self._plan.until_ms / 1000, lost)

    def _next_ms(self) -> int | None:
        """The next tick at which there is something to do."""
        moments = [self._world.next_ms(), self._coming[-1].spec.submitted_ms if self._coming else None]
        next_ms = min((moment for moment in moments if moment is not None), default=None)
        tick_ms = self._world.setting.tick_ms
        return None if next_ms is None else -(-next_ms // tick_ms) * tick_ms

    def _submit(self, arrival: Arrival) -> None:
        self._world.submit(JobIntent(arrival.spec), arrival.behaviour)

    def _lost_gpu_hours(self) -> float:
        jobs = self._world.history.jobs.values()
        return sum(job.lost_ms * job.spec.gpus for job in jobs) / 3_600_000
