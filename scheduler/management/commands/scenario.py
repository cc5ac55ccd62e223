"""``manage.py scenario``: run scenario files and say which expectations did not hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.sim.log import Writer
from scheduler.sim.log_file import CannotWrite, log_to, without_chatter
from scheduler.sim.reading import NotAScenario
from scheduler.sim.run import Result, run
from scheduler.sim.scenario import load

HELD, NOT_HELD, NO_SCENARIO = 0, 1, 2
"""Exit statuses."""


class Command(BaseCommand):
    help = "Run scenario files: exit status 0 if everything expected holds, 1 if not, 2 if a file is no scenario."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document on stdout")
        parser.add_argument(
            "--log", type=Path, metavar="OUT.jsonl", help="write the decision log, a JSON object a line"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with ExitStack() as stack:
            stack.enter_context(without_chatter())
            try:
                writers = [stack.enter_context(log_to(options["log"]))] if options["log"] else []
            except CannotWrite as error:
                raise CommandError(str(error), returncode=NO_SCENARIO) from error
            rows, status = self._run(options["files"], writers, quiet=options["as_json"])
        if options["as_json"]:
            self.stdout.write(json.dumps({"ok": status == HELD, "files": rows}, indent=2))
        if status != HELD:
            sys.exit(status)

    def _run(self, files: Sequence[Path], writers: Sequence[Writer], quiet: bool) -> tuple[list[dict[str, Any]], int]:
        rows: list[dict[str, Any]] = []
        status = HELD
        for path in files:
            begun = perf_counter()
            try:
                result = run(load(path), writers)
            except NotAScenario as error:
                self.stderr.write(str(error))
                status = NO_SCENARIO
                continue
            rows.append(_row(result, perf_counter() - begun))
            if not result.ok:
                status = max(status, NOT_HELD)
            if not quiet:
                self.stdout.write("\n".join(_lines(rows[-1])))
        return rows, status


def _row(result: Result, seconds: float) -> dict[str, Any]:
    """The result as the JSON document has it."""
    return {
        "file": result.file,
        "title": result.title,
        "ok": result.ok,
        "seconds": round(seconds, 3),
        "failed": [{"expect": failure.expectation.written, "got": failure.got} for failure in result.failed],
        "invariants": list(result.invariants),
        "jobs": result.jobs,
    }


def _lines(row: dict[str, Any]) -> Iterator[str]:
    """The result for a person: a line for the file, one for each thing that was wrong."""
    yield f"{'ok  ' if row['ok'] else 'FAIL'} {row['file']}: {row['title']} ({row['seconds']:.2f} s)"
    for failure in row["failed"]:
        yield f"       expected {json.dumps(failure['expect'], default=str)}, got {failure['got']}"
    for violation in row["invariants"]:
        yield f"       invariant broken at {violation}"
