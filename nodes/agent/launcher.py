"""What differs between ranks that are processes and ranks that are containers: how they are made ready and launched."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Protocol

import structlog

from nodes.agent.keeping import Launch, Rank
from scheduler.core.types import Assignment

log = structlog.get_logger(__name__)


class CannotPrepare(Exception):
    """Something that a start needs cannot be had now; it is tried again. The text says what and why."""


class Launcher(Protocol):
    """One for all gangs of a host."""

    def prepare(self, assignment: Assignment) -> bool:
        """Whether all that the gang's ranks need is there. Never waits: asked again until it is.

        Raises:
            CannotPrepare, OSError: not now.
        """

    def launch(self, assignment: Assignment, at: int, rank: Rank, scratch: Path) -> Launch:
        """How the rank at position ``at`` of the node's part is executed, with ``scratch`` as its working directory.

        Raises:
            OSError: what it needs cannot be made; tried again.
        """


def save_signal(assignment: Assignment) -> int:
    """The signal by which the job saves; the usual one where this host does not know the one that is named."""
    saves = assignment.spec.checkpoint
    named = signal.Signals.__members__.get(saves.signal) if saves is not None else signal.SIGUSR2
    if named is None:
        log.warning("a job saves by a signal that is not known here", job=assignment.job)
        return signal.SIGUSR2
    return named
