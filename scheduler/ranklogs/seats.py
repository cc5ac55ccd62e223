"""Which ranks of which attempts sat on a node: what it may write the logs of."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

from scheduler.core.types import EventKind
from scheduler.models import Job, JobEvent

REMEMBERED = 4096
"""Attempts whose seats a process remembers; they never change."""

Attempt = tuple[str, int]
Seats = dict[str, range]


class SeatBook:
    """Node → its ranks, of each attempt. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[Attempt, Seats] = {}
        self._lock = Lock()

    def find(self, attempts: Iterable[Attempt]) -> dict[Attempt, Seats]:
        """The seats of those that are recorded. One query at the most."""
        wanted = set(attempts)
        with self._lock:
            found = {attempt: self._known[attempt] for attempt in wanted & self._known.keys()}
        if missing := wanted - found.keys():
            asked = _recorded(missing)
            found |= asked
            with self._lock:
                self._known |= asked
                while len(self._known) > REMEMBERED:
                    del self._known[next(iter(self._known))]
        return found


def _recorded(attempts: set[Attempt]) -> dict[Attempt, Seats]:
    binds = JobEvent.objects.filter(kind=EventKind.BIND, job_id__in={job for job, _ in attempts})
    rows = binds.filter(attempt__in={number for _, number in attempts}).values_list("job_id", "attempt", "detail")
    return {(job, number): _seats(detail) for job, number, detail in rows if (job, number) in attempts}


def _seats(detail: dict[str, Any]) -> Seats:
    seats: Seats = {}
    first = 0
    for node, gpus in detail["allocation"]:
        seats[node] = range(first, first + len(gpus))
        first += len(gpus)
    return seats


def newest_attempts(jobs: Iterable[str]) -> dict[str, int]:
    """The newest attempt that is recorded of each job; one that is missing is no job."""
    return dict(Job.objects.filter(pk__in=set(jobs)).values_list("pk", "attempt"))
