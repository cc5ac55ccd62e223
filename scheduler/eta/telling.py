"""What was told of a job's start over time, and why it moved. For the job's page and the REST interface."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import clock
from scheduler.eta.models import StartTold
from scheduler.eta.moves import WORDS, Moved

MOST = 50
BASES = {
    "model": "run times learned from jobs like those that run",
    "owner": "the run times of their owners’ jobs before",
    "team": "the run times of their teams’ jobs before",
    "size": "the run times of jobs of their size",
    "limit": "their time limits",
}


@dataclass(frozen=True, slots=True)
class Move:
    """P50 moved by ``by_ms`` at ``at_ms``."""

    at_ms: int
    later: bool
    by_ms: int
    why: str
    words: str


def last_move(job_id: str) -> Move | None:
    """The last one; None while it has not moved since it was first told."""
    rows = list(StartTold.objects.filter(job=job_id).order_by("-at")[:2])
    return _move(rows[1], rows[0]) if len(rows) == 2 and rows[0].why else None


def told(job_id: str) -> list[StartTold]:
    """What was told, the newest first."""
    return list(StartTold.objects.filter(job=job_id).order_by("-at")[:MOST])


def words_of(why: str) -> str:
    return WORDS[Moved(why)] if why in list(Moved) else ""


def _move(before: StartTold, now: StartTold) -> Move:
    by_s = (now.p50 - before.p50).total_seconds()
    return Move(clock.to_ms(now.at), by_s > 0, round(abs(by_s) * 1000), now.why, words_of(now.why))
