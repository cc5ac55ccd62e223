"""What events say of checkpoints, as rows. The recorder calls this in the transaction in which it copies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from scheduler import clock
from scheduler.checkpoints.layout import home, place_named
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.core.types import Event, EventKind
from scheduler.models import Job
from scheduler.objects import Address

MOST_MANIFEST = 1400
"""Bytes of an address that fits in an index."""
AHEAD_MS = 60_000
"""How far a host's clock may be ahead of ours."""


def note(events: Iterable[Event], jobs: Mapping[str, Job], now: datetime) -> bool:
    """Keep the checkpoints that were reported, and have the newest of a job whose attempt is over looked at again.

    Whether there is anything to look at. The same events again change nothing.
    """
    told = [(event, jobs[event.job]) for event in events if event.job is not None and event.job in jobs]
    rows = [_row(event, job, now) for event, job in told if _names_one(event)]
    Checkpoint.objects.bulk_create(rows, ignore_conflicts=True)
    returned = [job.pk for event, job in told if event.kind is EventKind.RELEASE]
    again = _newest_good(returned) if returned else []
    if again:
        Checkpoint.objects.filter(pk__in=again, look_at=None).update(look_at=now)
    return bool(again) or any(row.look_at is not None for row in rows)


def _names_one(event: Event) -> bool:
    if event.kind is not EventKind.CHECKPOINT:
        return False
    return 0 < len(str(event.detail.get("manifest", "")).encode()) <= MOST_MANIFEST


def _newest_good(jobs: list[str]) -> list[int]:
    good = Checkpoint.objects.filter(job_id__in=jobs, state=State.GOOD).order_by("job", "-attempt", "-step")
    return list(good.distinct("job").values_list("pk", flat=True))


def _row(event: Event, job: Job, now: datetime) -> Checkpoint:
    detail = event.detail
    saved_ms = int(detail.get("saved_at_ms") or 0)
    row = Checkpoint(
        job=job,
        manifest=detail["manifest"],
        attempt=event.attempt,
        step=detail.get("step", 0),
        saved_at=clock.to_datetime(saved_ms if 0 < saved_ms < event.at_ms + AHEAD_MS else event.at_ms),
        work_ms=detail["work_ms"],
    )
    below = home_of(job)
    place = place_named(row.manifest, below) if below is not None else None
    if place is None:
        row.state, row.why = State.ELSEWHERE, "it does not lie where checkpoints of this job belong"
    else:
        # What was reported late by a later attempt is still the earlier attempt's checkpoint.
        row.state, row.look_at, row.attempt, row.step = State.REPORTED, now, place.attempt, place.step
    return row


def home_of(job: Job) -> Address | None:
    """Below what the job's checkpoints lie; None for a job without any."""
    saves = job.core_spec.get("checkpoint") or {}
    try:
        return home(str(saves.get("path") or ""), job.pk)
    except ValueError:
        return None
