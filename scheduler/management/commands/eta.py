"""``manage.py eta backtest``: how well starts and run times of a recorded workload would have been told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from scheduler.core.tuning import FLEET
from scheduler.core.types import NodeIntent, Policy
from scheduler.eta import backtest
from scheduler.eta.backtest import Errors, Losses
from scheduler.eta.past import Ran, wanted_of
from scheduler.outlook_words import span
from scheduler.sim import fleets, traces
from scheduler.sim.log_file import without_chatter
from scheduler.sim.reading import NotAScenario
from scheduler.sim.simulate import Plan, whole_days_ms
from scheduler.sim.traces import Arrival

LOAD = 0.8
HOSTS_A_RACK = 40
REASONS_EVERY_MS = 3_600_000


class Command(BaseCommand):
    help = "Hold what would have been told of starts and run times against what came."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=("backtest",))
        parser.add_argument("trace", type=Path, metavar="TRACE")
        parser.add_argument("--fleet", type=Path, help="hosts and quota; without it see --load")
        parser.add_argument(
            "--load",
            type=float,
            default=LOAD,
            help="without a fleet, and unless the trace is of the 10,000 GPUs' teams: so many hosts of 8 that the "
            f"trace asks for this share of them ({LOAD})",
        )
        parser.add_argument("--moments", type=int, default=60, help="at how many moments starts are told (60)")
        parser.add_argument("--rolls", type=int, default=3, help="how often the plan is rolled forward for each (3)")
        parser.add_argument(
            "--limits", choices=("look", "ignore"), default="look", help="whether limits are learned from"
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = self._plan(options)
        with_limit = options["limits"] == "look"
        with without_chatter(), _progress() as told:
            losses = backtest.run_times(_ran(plan.arrivals), with_limit, told)
            seen = backtest.watch(plan, options["moments"], told)
            errors = backtest.starts(plan, seen, options["rolls"], with_limit, told)
        if options["as_json"]:
            document = {
                "trace": str(options["trace"]),
                "hosts": len(plan.fleet.hosts),
                "run_times": asdict(losses),
                "starts": asdict(errors),
            }
            self.stdout.write(json.dumps(document, indent=2))
            return
        console = Console(file=sys.stdout)
        console.print(_of_run_times(losses, options["trace"].name))
        console.print(_of_starts(errors, f"{options['trace'].name}, {len(plan.fleet.hosts)} hosts"))

    def _plan(self, options: dict[str, Any]) -> Plan:
        for name, least in (("moments", 1), ("rolls", 1), ("load", 0.01)):
            if options[name] < least:
                raise CommandError(f"--{name} is {options[name]}: give {least} or more", returncode=2)
        try:
            arrivals = traces.load(options["trace"])
            fleet = fleets.load_fleet(options["fleet"]) if options["fleet"] else fleet_of(arrivals, options["load"])
        except (traces.NotATrace, NotAScenario) as error:
            raise CommandError(str(error), returncode=2) from error
        if not arrivals:
            raise CommandError(f"{options['trace']}: no job asks for a GPU", returncode=2)
        return Plan(fleet, arrivals, Policy(reason_every_ms=REASONS_EVERY_MS, **FLEET), whole_days_ms(arrivals))


def fleet_of(arrivals: Sequence[Arrival], load: float) -> fleets.Fleet:
    """The design's fleet for a trace of its teams; else as many hosts of 8 as make the trace a load of ``load``."""
    known = fleets.ten_thousand()
    if {arrival.spec.team for arrival in arrivals} <= known.teams():
        return known
    asked = sum(arrival.spec.gpus * (arrival.behaviour.runtime_ms or 0) for arrival in arrivals)
    largest = max((arrival.spec.gpus for arrival in arrivals), default=1)
    span_ms = max(1, arrivals[-1].spec.submitted_ms if arrivals else 1)
    hosts = max(-(-largest // 8), round(asked / span_ms / load / 8), 1)
    return fleets.Fleet(tuple(NodeIntent(f"h{at}", "az1", f"r{at // HOSTS_A_RACK + 1}", "GPU") for at in range(hosts)))


def _ran(arrivals: Sequence[Arrival]) -> list[Ran]:
    """Each as if it had started when it was submitted: run times do not hang on when that is."""
    return [
        Ran(wanted_of(arrival.spec), length_ms / 1000, (arrival.spec.submitted_ms + length_ms) / 1000)
        for arrival in arrivals
        for length_ms in (arrival.behaviour.runtime_ms or 0,)
    ]


def _of_run_times(losses: Losses, title: str) -> Table:
    table = Table(title=f"{title}: {losses.jobs:,} run times, each by what was known when it was submitted")
    for column in ("", "loss below the owner's own, s", "of logarithms", "share of jobs below"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("P50", f"{losses.p50:.0%}", f"{losses.log_p50:.0%}", f"{losses.below_p50:.0%}")
    table.add_row("P90", f"{losses.p90:.0%}", f"{losses.log_p90:.0%}", f"{losses.below_p90:.0%}")
    return table


def _of_starts(errors: Errors, title: str) -> Table:
    table = Table(title=f"{title}: {errors.predictions:,} starts told at {errors.moments} moments")
    for column in ("", "started by it", "median error", "that of P50 is so much of it"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("P90", f"{errors.covered:.0%}", "", "")
    table.add_row("P50", "", _span(errors.p50_s), "")
    limits = _part(errors.p50_where_limits_tell_s, errors.limits_s)
    table.add_row(f"by limits, where they tell a start ({errors.known:.0%})", "", _span(errors.limits_s), limits)
    table.add_row("mean wait of its size", "", _span(errors.mean_wait_s), _part(errors.p50_s, errors.mean_wait_s))
    return table


def _span(seconds: float) -> str:
    return span(round(seconds * 1000))


def _part(mine: float, theirs: float) -> str:
    return f"{mine / theirs:.2f}" if theirs else "–"


@contextmanager
def _progress() -> Iterator[backtest.Progress]:
    """A bar on stderr: what is being done, and how much of it is."""
    columns = (TextColumn("{task.description:>12}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bar:
        task = bar.add_task("", total=1.0)
        doing = ""

        def told(what: str, done: float) -> None:
            nonlocal doing
            if what != doing:
                doing = what
                bar.reset(task, description=what)
            bar.update(task, completed=done)

        yield told
        bar.update(task, completed=1.0)
