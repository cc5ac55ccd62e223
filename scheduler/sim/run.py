"""Runs a scenario: events at their time, decisions after them, expectations at theirs, invariants at every plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core import invariants
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan
from scheduler.sim.checker import Checker
from scheduler.sim.expectations import Expectation
from scheduler.sim.incidents import Incidents
from scheduler.sim.log import Line, Log, Writer
from scheduler.sim.quota import tree, written
from scheduler.sim.scenario import Scenario
from scheduler.sim.verdict import Failure, judge
from scheduler.sim.world import Restless, Setting, World

IDLE_TICKS = 5
LONGEST_MS = 400 * 86_400_000
"""A run without a last moment that never settles is cut off here."""


@dataclass(frozen=True)
class Result:
    """What came of a scenario. ``jobs`` as the JSON result has them; ``invariants`` are violations in words."""

    file: str
    title: str
    failed: tuple[Failure, ...] = ()
    invariants: tuple[str, ...] = ()
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.failed and not self.invariants


def run(scenario: Scenario, writers: Sequence[Writer] = ()) -> Result:
    """Run the scenario to its end.

    Args:
        writers: each gets every line of the decision log.
    """
    return _Run(scenario, writers).to_the_end()


class _Run:
    def __init__(self, scenario: Scenario, writers: Sequence[Writer]) -> None:
        self._scenario = scenario
        self._checker = Checker()
        self._violations: list[str] = []
        self._failed: list[Failure] = []
        self._log = Log(scenario.start_ms, (self._check_line, *writers))
        settings, quota = scenario.settings, scenario.quota
        self._log.fleet(scenario.start_ms, scenario.hosts, written(quota.branches), settings.written)
        records = tree(quota.branches, quota.names, 1, quota.open)
        setting = Setting(
            scenario.start_ms, scenario.hosts, records, settings.policy, settings.tick_ms, settings.lease_ms
        )
        self._world = World(setting, self._log)
        self._world.control.inspect = self._inspect
        self._incidents = Incidents(self._world, quota)
        self._events = list(reversed(scenario.events))
        timed = [line for line in scenario.expectations if line.at_ms is not None]
        self._due = sorted(timed, key=_at_ms, reverse=True)

    def to_the_end(self) -> Result:
        try:
            self._play()
        except Restless as restless:
            self._violate(str(restless))
        self._judge_before(None)
        self._judge([line for line in self._scenario.expectations if line.at_ms is None])
        return Result(
            self._scenario.file, self._scenario.title, tuple(self._failed), tuple(self._violations), self._jobs()
        )

    # --- time

    def _play(self) -> None:
        last_ms = self._last_ms()
        self._world.settle()
        while (next_ms := self._next_ms()) is not None and next_ms <= last_ms:
            self._judge_before(next_ms)
            self._world.put_forward(next_ms)
            while self._events and self._at(self._events[-1].at_ms) <= next_ms:
                self._incidents.apply(self._events.pop().event)
            self._world.settle()
        if self._world.next_ms() is None:
            self._stay_idle()

    def _next_ms(self) -> int | None:
        moments = [self._world.next_ms()]
        if self._events:
            moments.append(self._at(self._events[-1].at_ms))
        return min((moment for moment in moments if moment is not None), default=None)

    def _last_ms(self) -> int:
        """The last moment that the file names. If that is an event's, the run goes on until nothing more can happen."""
        events = [timed.at_ms for timed in self._scenario.events]
        asked = [line.at_ms for line in self._scenario.expectations if line.at_ms is not None]
        for line in self._scenario.expectations:
            asked += [moment for key, moment in line.checks if key in ("started_by", "ended_by")]
        last_ms = max(asked, default=-1)
        return self._at(last_ms if last_ms > max(events, default=-1) else LONGEST_MS)

    def _at(self, at_ms: int) -> int:
        return self._scenario.start_ms + at_ms

    def _stay_idle(self) -> None:
        """A run that has settled decides nothing more, however often it is asked."""
        for _ in range(IDLE_TICKS):
            self._world.put_forward(self._world.clock() + self._world.setting.tick_ms)
            if self._world.decides():
                self._violate("decides again after everything had settled")
                return

    # --- what must hold

    def _judge_before(self, until_ms: int | None) -> None:
        """Judge the expectations whose moment is over when ``until_ms`` comes; None: all that are left."""
        while self._due and (until_ms is None or self._at(_at_ms(self._due[-1])) < until_ms):
            line = self._due.pop()
            self._world.clock.put_forward(max(self._world.clock(), self._at(_at_ms(line))))
            self._judge([line])

    def _judge(self, lines: Sequence[Expectation]) -> None:
        self._failed += [failure for line in lines if (failure := judge(line, self._world)) is not None]

    def _inspect(self, snapshot: Snapshot, plan: Plan, now_ms: int) -> None:
        for violation in invariants.check(snapshot, plan, self._scenario.settings.policy, now_ms):
            self._violate(violation)

    def _check_line(self, line: Line) -> None:
        for violation in self._checker.take(line):
            self._violate(violation)

    def _violate(self, what: str) -> None:
        self._violations.append(f"{self._log.seconds(self._world.clock()):g}s: {what}")

    # --- what is told of it

    def _jobs(self) -> dict[str, dict[str, Any]]:
        now_ms = self._world.clock()
        return {
            name: {
                "state": record.state,
                "attempts": record.attempt,
                "started": self._seconds(record.first_started_ms),
                "ended": self._seconds(record.ended_ms),
                "waited_s": (_first(record.first_started_ms, record.ended_ms, now_ms) - record.spec.submitted_ms)
                / 1000,
            }
            for name, record in self._world.history.jobs.items()
        }

    def _seconds(self, at_ms: int | None) -> float | None:
        return None if at_ms is None else float(self._log.seconds(at_ms))


def _at_ms(line: Expectation) -> int:
    return line.at_ms or 0


def _first(*moments: int | None) -> int:
    return next(moment for moment in moments if moment is not None)
