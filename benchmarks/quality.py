"""How good the decisions are: a week of the 10,000-GPU fleet, beside the figures of simpler policies.

``python -m benchmarks.quality [--json]`` simulates ../shared/traces/fleet_week.csv twice: with preemption and shares
off, so that like is held against like, and with everything on. Exit status 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.table import Table

from benchmarks.fairness import Fairness
from scheduler.core.tuning import FLEET
from scheduler.core.types import Policy
from scheduler.sim import fleets, traces
from scheduler.sim.checker import Checker
from scheduler.sim.log import Line
from scheduler.sim.log_file import without_chatter
from scheduler.sim.metrics import Report, Waits
from scheduler.sim.simulate import Plan, simulate, whole_days_ms

TRACE = Path(__file__).resolve().parents[2] / "shared" / "traces" / "fleet_week.csv"
HOUR = 3600
REASONS_EVERY_MS = 3_600_000
TICKS_S = 2 * 60
CONTENDED_S = 12 * HOUR
"""A day counts as contended if somebody waited for so long of it."""
PRESSING_S = 5 + TICKS_S
"""What a P0 job may wait beyond the grace: five seconds, and the two ticks of a simulation that it takes to see."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and its bound; ``at_most`` or at least."""

    name: str
    value: float
    bound: float
    at_most: bool = True

    @property
    def ok(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


@dataclass(frozen=True, slots=True)
class Measured:
    report: Report
    seconds: float
    violations: int
    p0_waits: list[float]
    fairness: Fairness


class P0Waits:
    """Takes in the decision log; seconds from submission to start of the P0 jobs that started."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._submitted: dict[str, float] = {}

    def take(self, line: Line) -> None:
        if line["kind"] == "submit" and line["priority"] == "P0":
            self._submitted[line["job"]] = line["t"]
        elif line["kind"] == "start" and line["job"] in self._submitted:
            self.seconds.append(line["t"] - self._submitted.pop(line["job"]))


def measure(trace: Path, preemption: bool, shares: bool) -> Measured:
    """Simulate the trace on the design's fleet; ``seconds`` of processor time, without those of judging it."""
    checker = Checker()
    violations: list[str] = []
    p0, fairness = P0Waits(), Fairness()
    judging = 0.0

    def judge(line: Line) -> None:
        nonlocal judging
        since = process_time()
        violations.extend(checker.take(line))
        p0.take(line)
        fairness.take(line)
        judging += process_time() - since

    begun = process_time()
    arrivals = traces.load(trace)
    policy = Policy(preemption=preemption, shares=shares, reason_every_ms=REASONS_EVERY_MS, **FLEET)
    with without_chatter():
        made = Plan(fleets.ten_thousand(), arrivals, policy, whole_days_ms(arrivals))
        report = simulate(made, [judge])
    seconds = process_time() - begun - judging
    fairness.close(report.length_s)
    return Measured(report, seconds, len(violations) + len(checker.finish()), p0.seconds, fairness)


def like_with_like(found: Measured) -> Iterable[Figure]:
    """What FIFO, EASY and greedy placement are measured by as well, in the trace's own notes."""
    report = found.report
    yield Figure("violations in the decision log", found.violations, 0)
    yield Figure("seconds", found.seconds, 120)
    yield Figure("mean wait, all started, h", _mean(report.waits, "all"), 2)
    yield Figure("mean wait, 65+ GPUs, those waiting counted, h", _mean(report.waits_with_waiting, "65+"), 12)
    yield Figure("longest wait, h", (report.waits_with_waiting["all"].longest or 0) / HOUR, 96)
    yield Figure("utilisation, days 4 to 7", report.late_utilisation["all"], 0.97, at_most=False)
    yield Figure("multi-host gangs in one rack", report.one_rack or 0, 0.85, at_most=False)


def everything_on(found: Measured) -> Iterable[Figure]:
    """With preemption and shares."""
    report = found.report
    yield Figure("violations in the decision log", found.violations, 0)
    yield Figure("seconds", found.seconds, 90)
    lost = report.lost_gpu_hours / report.used_gpu_hours if report.used_gpu_hours else 0.0
    yield Figure("GPU hours lost to stops, share of those used", lost, 0.01)
    within = sum(1 for seconds in found.p0_waits if seconds <= Policy().grace_ms / 1000 + PRESSING_S)
    yield Figure(
        f"P0 started within grace + {PRESSING_S} s, share of {len(found.p0_waits)}",
        within / max(1, len(found.p0_waits)),
        1,
        at_most=False,
    )
    unmet = found.fairness.unmet
    soon = sum(1 for seconds, _ in unmet if seconds <= Policy().grace_ms / 1000 + TICKS_S)
    yield Figure(f"floors met within grace + {TICKS_S} s, share of {len(unmet)}", soon / len(unmet), 1, at_most=False)
    yield Figure("longest that a floor was not met, s", max(seconds for seconds, _ in unmet), 120 + TICKS_S)
    drifts = [
        abs(part)
        for _, _, contended_s, parts in found.fairness.drifts()
        if contended_s >= CONTENDED_S
        for part in parts.values()
    ]
    yield Figure("share of an organisation on a contended day, most off, points", 100 * max(drifts), 2)


def _mean(waits: dict[str, Waits], name: str) -> float:
    mean = waits[name].mean
    return float("inf") if mean is None else mean / HOUR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", dest="as_json", help="JSON in place of tables")
    options = parser.parse_args()
    if not TRACE.is_file():
        print(f"no trace at {TRACE.name} beside the repository: nothing measured", file=sys.stderr)
        return 0
    groups = {
        "preemption and shares off": list(like_with_like(measure(TRACE, preemption=False, shares=False))),
        "everything on": list(everything_on(measure(TRACE, preemption=True, shares=True))),
    }
    if options.as_json:
        rows = {
            name: [{"name": f.name, "value": f.value, "bound": f.bound, "ok": f.ok} for f in figures]
            for name, figures in groups.items()
        }
        print(json.dumps(rows, indent=2))
    else:
        for name, figures in groups.items():
            _show(name, figures)
    return 0 if all(figure.ok for figures in groups.values() for figure in figures) else 1


def _show(name: str, figures: Iterable[Figure]) -> None:
    table = Table(title=f"fleet week, {name}", title_justify="left")
    for column in ("figure", "measured", "bound", ""):
        table.add_column(column, justify="left" if column in ("figure", "") else "right")
    for figure in figures:
        sign = "≤" if figure.at_most else "≥"
        verdict = "[green]ok[/green]" if figure.ok else "[red]broken[/red]"
        table.add_row(figure.name, f"{figure.value:,.3f}", f"{sign} {figure.bound:g}", verdict)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
