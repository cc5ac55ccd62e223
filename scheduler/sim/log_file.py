"""Where the decision log of a run goes, and keeping the components' own log lines out of its way."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from scheduler.sim.log import Line, Writer


class CannotWrite(Exception):
    """The log has no place to go: says where and why."""


@contextmanager
def log_to(path: Path) -> Iterator[Writer]:
    """Writes lines to ``path``, a JSON object each; what was there before is gone.

    Raises:
        CannotWrite: there is no such directory, or no right to write there.
    """
    try:
        out = path.open("w", encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"cannot write the log {path}: {error.strerror}") from error
    with out:

        def write(line: Line) -> None:
            out.write(json.dumps(line, separators=(",", ":")))
            out.write("\n")

        yield write


@contextmanager
def without_chatter() -> Iterator[None]:
    """Elections and stale plans are daily work in a run that plays weeks: only errors are told, on stderr."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
