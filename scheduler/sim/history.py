"""What became of each job, gathered from the journal as the recorder of the live system does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.types import TERMINAL, Event, EventKind, JobSpec, Phase, Reason

REJECTED = "REJECTED"


@dataclass(slots=True)
class JobRecord:
    """One job. ``state`` is a phase, or REJECTED. Times are points in time in milliseconds.

    ``held`` is the allocation of the running attempt, GPU indices by host in the order of ranks, and ``attempts`` that
    of every attempt so far. ``stops`` counts the stops while RUNNING, when they were asked. ``lost_ms`` is the running
    time that had to be done again, over all attempts.
    """

    spec: JobSpec
    state: str = Phase.PENDING.value
    reason: str | None = None
    attempt: int = 0
    first_started_ms: int | None = None
    ended_ms: int | None = None
    stops: int = 0
    stop_cause: str | None = None
    lost_ms: int = 0
    held: dict[str, list[int]] = field(default_factory=dict)
    attempts: dict[int, dict[str, list[int]]] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state == REJECTED or self.state in TERMINAL

    @property
    def restarts(self) -> int:
        """Attempts after the first."""
        return max(0, self.attempt - 1)

    def host_of(self, attempt: int, rank: int) -> str | None:
        """The host on which a rank of an attempt was placed; None if there was no such attempt or rank."""
        for host, gpus in self.attempts.get(attempt, {}).items():
            if rank < len(gpus):
                return host
            rank -= len(gpus)
        return None


class History:
    """All jobs of a run by name. An event of a job that was never submitted is a ``KeyError``."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}

    def submitted(self, spec: JobSpec, refused: Reason | None = None) -> None:
        record = JobRecord(spec)
        if refused is not None:
            record.state, record.reason = REJECTED, refused.value
        self.jobs[spec.id] = record

    def take(self, event: Event) -> None:
        """Take in one event of the journal; those that belong to no job change nothing."""
        if event.job is None or event.kind in (EventKind.RESERVE, EventKind.UNRESERVE):
            return
        record = self.jobs[event.job]
        if event.kind is EventKind.BIND:
            record.attempt = event.attempt
            record.held = record.attempts[event.attempt] = dict(event.detail["gpus"])
            record.reason = None
        elif event.kind is EventKind.START and record.first_started_ms is None:
            record.first_started_ms = event.at_ms
        elif event.kind is EventKind.STOP:
            record.stops += record.state == Phase.RUNNING
            record.stop_cause = event.detail["cause"]
        elif event.kind is EventKind.RELEASE:
            record.held = {}
        elif event.kind is EventKind.REASON:
            record.reason = event.detail["reason"]
        elif event.kind is EventKind.END:
            record.ended_ms = event.at_ms
            record.reason = None
        record.state = event.detail.get("phase", record.state)

    def stops(self) -> int:
        return sum(record.stops for record in self.jobs.values())

    def holding(self) -> Iterable[JobRecord]:
        return (record for record in self.jobs.values() if record.held)
