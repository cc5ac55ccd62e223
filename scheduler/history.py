"""What an event of the journal means for the row of its job. Pure: changes the object handed in and saves nothing."""

from __future__ import annotations

from scheduler import clock
from scheduler.core.types import TERMINAL, Event, EventKind, Phase
from scheduler.models import Job

FIELDS = ("state", "reason", "attempt", "allocation", "stop_cause", "started_at", "ended_at", "revision")
"""The fields of a job that ``tell`` may change."""


def tell(job: Job, event: Event) -> None:
    """Bring the row up to ``event``. A job that has ended keeps its end; only its GPUs may still be freed."""
    over = job.state in TERMINAL
    if event.kind is EventKind.RELEASE:
        job.allocation = []
    if over:
        return
    job.state = Phase(event.detail.get("phase", job.state)).value
    job.attempt = max(job.attempt, event.attempt)
    if event.kind is EventKind.BIND:
        job.allocation = [{"node": node, "gpus": gpus} for node, gpus in event.detail["gpus"].items()]
    elif event.kind is EventKind.START:
        job.started_at = job.started_at or clock.to_datetime(event.at_ms)
    elif event.kind is EventKind.STOP:
        job.stop_cause = event.detail["cause"]
    if event.kind is EventKind.REASON:
        job.reason = event.detail.get("reason") or ""
    elif job.state != Phase.PENDING:
        job.reason = ""
    if job.state in TERMINAL:
        job.ended_at = clock.to_datetime(event.at_ms)
