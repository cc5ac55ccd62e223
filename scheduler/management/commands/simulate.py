"""``manage.py simulate``: what the scheduler would have made of a trace."""

from __future__ import annotations

import json
import sys
from argparse import BooleanOptionalAction
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler.core.tuning import FLEET
from scheduler.core.types import Policy
from scheduler.sim import fleets, report, simulate, traces
from scheduler.sim.checker import Checker
from scheduler.sim.log import Line
from scheduler.sim.log_file import CannotWrite, log_to, without_chatter
from scheduler.sim.reading import NotAScenario

REASONS_EVERY_MS = 3_600_000
"""Over weeks nobody reads why a job waited at each second."""
SHOWN_VIOLATIONS = 20


class Command(BaseCommand):
    help = "Run a trace through the scheduler and report utilisation, waits and lost work."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("trace", type=Path, metavar="TRACE")
        parser.add_argument("--fleet", type=Path, help="hosts and quota; without it the 10,000 GPUs of the design")
        parser.add_argument("--policy", choices=("fifo", "easy", "gangway"), default="gangway")
        parser.add_argument("--preemption", action=BooleanOptionalAction, default=True, help="stop jobs for others")
        parser.add_argument("--shares", action=BooleanOptionalAction, default=True, help="order by the quota tree")
        parser.add_argument("--tick", type=float, default=60, help="seconds that are looked at together (60)")
        parser.add_argument("--days", type=float, help="end after so many days; without it with the last job's day")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        parser.add_argument("--log", type=Path, metavar="OUT.jsonl", help="write the decision log")
        parser.add_argument("--check", action="store_true", help="replay the decision log; exit status 1 if wrong")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = self._plan(options)
        checker = _Checking()
        begun = perf_counter()
        with ExitStack() as stack:
            stack.enter_context(without_chatter())
            try:
                writers = [stack.enter_context(log_to(options["log"]))] if options["log"] else []
            except CannotWrite as error:
                raise CommandError(str(error), returncode=2) from error
            writers += [checker.take] if options["check"] else []
            told = stack.enter_context(_progress(plan))
            found = simulate.simulate(plan, writers, told)
        seconds = perf_counter() - begun
        violations = checker.finish() if options["check"] else []
        if options["as_json"]:
            document = {"trace": str(options["trace"]), "policy": options["policy"], "seconds": round(seconds, 2)}
            document |= report.as_json(found) | {"violations": violations}
            self.stdout.write(json.dumps(document, indent=2))
        else:
            report.show(found, Console(file=sys.stdout), f"{options['trace'].name}, {options['policy']}")
            self.stdout.write(f"{seconds:.1f} s, {len(plan.arrivals) / max(seconds, 1e-9):,.0f} jobs a second")
            self._tell_violations(violations, options["check"])
        if violations:
            sys.exit(1)

    def _plan(self, options: dict[str, Any]) -> simulate.Plan:
        try:
            arrivals = traces.load(options["trace"])
            fleet = fleets.load_fleet(options["fleet"]) if options["fleet"] else fleets.ten_thousand()
        except (traces.NotATrace, NotAScenario) as error:
            raise CommandError(str(error), returncode=2) from error
        policy = Policy(
            order=options["policy"],
            preemption=options["preemption"],
            shares=options["shares"],
            reason_every_ms=REASONS_EVERY_MS,
            **(FLEET if options["policy"] == "gangway" else {}),
        )
        days = options["days"]
        until_ms = simulate.whole_days_ms(arrivals) if days is None else round(days * 86_400_000)
        if options["tick"] <= 0:
            raise CommandError("--tick should be more than 0 seconds", returncode=2)
        return simulate.Plan(fleet, arrivals, policy, until_ms, round(options["tick"] * 1000))

    def _tell_violations(self, violations: Sequence[str], checked: bool) -> None:
        for violation in violations[:SHOWN_VIOLATIONS]:
            self.stdout.write(f"violation: {violation}")
        if checked:
            self.stdout.write(f"decision log: {len(violations)} violations")


class _Checking:
    """The checker as a writer of the log, with what it found."""

    def __init__(self) -> None:
        self._checker = Checker()
        self._found: list[str] = []

    def take(self, line: Line) -> None:
        self._found += [f"{line['t']:g}s: {violation}" for violation in self._checker.take(line)]

    def finish(self) -> list[str]:
        return self._found + self._checker.finish()


@contextmanager
def _progress(plan: simulate.Plan) -> Iterator[simulate.Progress]:
    """A bar on stderr: the day that is simulated, jobs a second, the time that is left."""
    columns = (TextColumn("day {task.fields[day]:.2f}"), BarColumn(), TextColumn("{task.fields[rate]:,.0f} jobs/s"))
    begun = perf_counter()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), refresh_per_second=2) as bar:
        task = bar.add_task("", total=plan.until_ms, day=0.0, rate=0.0)
        shown = begun

        def told(now_ms: int, submitted: int) -> None:
            nonlocal shown
            now = perf_counter()
            if now - shown >= 0.5:
                shown = now
                bar.update(task, completed=now_ms, day=now_ms / 86_400_000, rate=submitted / (now - begun))

        yield told
        bar.update(task, completed=plan.until_ms, day=plan.until_ms / 86_400_000)
