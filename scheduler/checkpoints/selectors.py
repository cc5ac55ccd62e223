"""What there is to say of a job's checkpoints, and of the whole fleet's where something is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import Count, Min

from scheduler import clock
from scheduler.checkpoints.models import KEPT, Checkpoint, State
from scheduler.core.types import EventKind, Phase
from scheduler.models import JobEvent
from scheduler.picture import Picture
from scheduler.selectors.incidents import Alert

MOST = 200
UNNAMED = "unnamed"
"""The state of a checkpoint that was reported without an address: there is nothing to look at."""
TROUBLED_FOR = timedelta(seconds=30)
LATE_BY = 3
"""A job is late that has not saved for so many of its intervals."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One checkpoint of a job. ``resumed_by`` are the attempts that were started from it."""

    saved_at: datetime
    attempt: int
    state: str
    step: int | None = None
    work_ms: int | None = None
    manifest: str = ""
    why: str = ""
    size: int | None = None
    files: int | None = None
    took_ms: int | None = None
    checked_at: datetime | None = None
    resumed_by: tuple[int, ...] = ()


def checkpoints(job_id: str) -> list[Shown]:
    """A job's checkpoints, the newest first, those that were pruned among them. Three queries."""
    found = merge(_named(job_id), _unnamed(job_id), key=lambda one: one.saved_at, reverse=True)
    return list(islice(found, MOST))


def newest_good(shown: list[Shown]) -> Shown | None:
    """The newest that was found whole."""
    return next((one for one in shown if one.state == State.GOOD), None)


def _named(job_id: str) -> Iterator[Shown]:
    resumed: dict[str, list[int]] = {}
    binds = JobEvent.objects.filter(job_id=job_id, kind=EventKind.BIND, detail__has_key="resume_from")
    for attempt, manifest in binds.order_by("attempt").values_list("attempt", "detail__resume_from"):
        resumed.setdefault(manifest, []).append(attempt)
    for row in Checkpoint.objects.filter(job_id=job_id).order_by("-saved_at", "-attempt", "-step")[:MOST]:
        yield Shown(
            saved_at=row.saved_at,
            attempt=row.attempt,
            state=row.state,
            step=row.step,
            work_ms=row.work_ms,
            manifest=row.manifest,
            why=row.why,
            size=row.size,
            files=row.files,
            took_ms=row.took_ms,
            checked_at=row.checked_at,
            resumed_by=tuple(resumed.get(row.manifest, ())),
        )


def _unnamed(job_id: str) -> Iterator[Shown]:
    events = JobEvent.objects.filter(job_id=job_id, kind=EventKind.CHECKPOINT).exclude(detail__has_key="manifest")
    for at, attempt, detail in events.order_by("-at", "-id")[:MOST].values_list("at", "attempt", "detail"):
        yield Shown(at, attempt, UNNAMED, work_ms=_whole(detail.get("work_ms")))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def alerts(picture: Picture, now_ms: int) -> list[Alert]:
    """What is wrong with checkpoints now. One query."""
    return [*_cannot_look(clock.to_datetime(now_ms)), *_late(picture, now_ms)]


def _cannot_look(now: datetime) -> Iterator[Alert]:
    troubled = Checkpoint.objects.filter(troubled_at__lte=now - TROUBLED_FOR, state__in=(*KEPT, State.PRUNING))
    found = troubled.aggregate(jobs=Count("job", distinct=True), since=Min("troubled_at"))
    if found["jobs"]:
        words = f"Object storage does not tell how checkpoints of {_jobs(found['jobs'])} are"
        doing = "Jobs go on. It is asked again each minute; until then the newest checkpoint reported is resumed from."
        yield Alert(words, doing, "failed", clock.to_ms(found["since"]))


def _late(picture: Picture, now_ms: int) -> Iterator[Alert]:
    if not picture.revision:
        return
    late = []
    with picture.reading() as snapshot:
        for job in snapshot.jobs.values():
            saves, decision = job.spec.checkpoint, job.decision
            if job.phase is not Phase.RUNNING or saves is None or saves.every_ms <= 0 or decision.started_ms is None:
                continue
            since_ms = max(decision.saved_at_ms, decision.started_ms)
            if now_ms - since_ms > LATE_BY * saves.every_ms + saves.takes_ms:
                late.append(since_ms)
    if late:
        words = f"{_jobs(len(late))} {'has' if len(late) == 1 else 'have'} not saved for {LATE_BY} intervals and more"
        doing = "They run on and would lose the work since. See that their programs save, and where to."
        yield Alert(words, doing, "stopping", min(late))


def _jobs(n: int) -> str:
    return f"{n} job{'' if n == 1 else 's'}"
