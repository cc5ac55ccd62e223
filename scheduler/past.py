"""Frames of the past: from time to time the state that ``scheduler.replay`` tells is kept, so that any moment of the
last days is a frame and the few events after it.

A frame holds all events up to its revision, and the recorder inserts events in the order of their revisions; so an
event that reaches PostgreSQL late belongs to a later frame and is in none twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from scheduler import replay
from scheduler.core.types import EventKind
from scheduler.models import JobEvent, MapFrame

EVERY = timedelta(minutes=5)
KEPT = timedelta(days=8)
EVENTS = 4_000
"""A frame is also kept after so many events."""

_KINDS = [
    kind.value
    for kind in (
        EventKind.BIND,
        EventKind.START,
        EventKind.STOP,
        EventKind.RELEASE,
        EventKind.HOST,
        EventKind.GPU,
    )
]
_Row = tuple[int, datetime, str, str | None, str, dict[str, Any]]


def state_at(at: datetime) -> replay.State:
    """Who held what, and how the hosts were, after all events up to ``at``."""
    frame = MapFrame.objects.filter(at__lte=at).order_by("-at", "-revision").first()
    state = frame.state if frame is not None else replay.empty()
    rows = _events_after(frame.revision if frame is not None else -1).filter(at__lte=at)
    # Clocks of leaders differ by little: what happened by then is not told later than in the frame after next.
    beyond = MapFrame.objects.filter(at__gt=at + EVERY).order_by("at").values_list("revision", flat=True).first()
    if beyond is not None:
        rows = rows.filter(revision__lte=beyond)
    for _, _, kind, job, node, detail in _listed(rows):
        replay.tell(state, kind, job, node, detail)
    return state


def keep_frames(now: datetime) -> int:
    """Keep the frames that are due, and let go of those older than anybody looks back; answers how many are new."""
    last = MapFrame.objects.order_by("-revision").first()
    state = last.state if last is not None else replay.empty()
    since, kept, told = last.at if last is not None else None, 0, 0
    for commit in _whole_commits(_listed(_events_after(last.revision if last is not None else -1))):
        for _, _, kind, job, node, detail in commit:
            replay.tell(state, kind, job, node, detail)
        told += len(commit)
        revision, at = commit[-1][:2]
        since = since or at
        if at - since >= EVERY or told >= EVENTS:
            MapFrame.objects.get_or_create(revision=revision, defaults={"at": at, "state": state})
            since, told = at, 0
            kept += 1
    MapFrame.objects.filter(at__lt=now - KEPT).delete()
    return kept


def _events_after(revision: int) -> QuerySet[JobEvent]:
    return JobEvent.objects.filter(revision__gt=revision, kind__in=_KINDS).order_by("revision", "position")


def _listed(rows: QuerySet[JobEvent]) -> Iterable[_Row]:
    """The events in order, without holding them all in memory."""
    return rows.values_list("revision", "at", "kind", "job_id", "node", "detail").iterator(chunk_size=2000)


def _whole_commits(rows: Iterable[_Row]) -> Iterable[list[_Row]]:
    """The events of each revision together: a frame never ends within a commit."""
    commit: list[_Row] = []
    for row in rows:
        if commit and row[0] != commit[-1][0]:
            yield commit
            commit = []
        commit.append(row)
    if commit:
        yield commit
