"""What went wrong and what the system did about it: the last days from history, the present from the picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nodes.models import Node
from scheduler import clock
from scheduler.core.types import EventKind, Phase
from scheduler.incidents import HostEvent, Incident, Stopped, tell
from scheduler.models import OF_FLEET, JobEvent
from scheduler.picture import Picture

LOOK_BACK = timedelta(days=7)
MOST_EVENTS = 5_000
"""Newest events of each kind that are looked at: what is older than those is left out, and said so."""
STUCK_MS = 60_000
"""A job that nobody has looked at for so long means that nobody looks."""
_CAUSES = ("node_failure", "rank_failure", "spot", "drain")


@dataclass(frozen=True, slots=True)
class Takeover:
    """Another worker leads from ``at`` on."""

    at: datetime
    worker: str


@dataclass(frozen=True, slots=True)
class Past:
    """``incidents`` the newest first; ``cut`` says that there were more events than are looked at."""

    incidents: list[Incident]
    takeovers: list[Takeover]
    cut: bool


@dataclass(frozen=True, slots=True)
class Alert:
    """Something about the system itself that is wrong now, and what it does about it. ``state`` colours it."""

    words: str
    doing: str
    state: str
    since_ms: int | None = None


def incidents(now: datetime) -> Past:
    """The incidents of the last 7 days. Four queries."""
    since = now - LOOK_BACK
    newest = JobEvent.objects.filter(kind__in=OF_FLEET, at__gte=since).order_by("-at", "-id")[:MOST_EVENTS]
    rows = list(newest.values_list("at", "node", "kind", "detail"))
    events = [_host_event(at, *row) for at, *row in reversed(rows) if row[1] != EventKind.LEADER]
    places = {name: (az, rack) for name, az, rack in Node.objects.values_list("name", "az", "rack")}
    leaders = [Takeover(at, str(detail.get("name") or "")) for at, _, kind, detail in rows if kind == EventKind.LEADER]
    return Past(tell(events, _stopped(since), places), leaders, len(rows) == MOST_EVENTS)


def alerts(picture: Picture, now_ms: int) -> list[Alert]:
    """What is wrong with the system itself as this process sees it."""
    found = []
    if not picture.fresh:
        doing = "What runs goes on; jobs that are submitted are kept and delivered as soon as it answers."
        found.append(Alert("The live state cannot be read", doing, "failed", picture.stale_since_ms))
    if not picture.revision:
        return found
    garbled = picture.garbled
    if garbled:
        doing = "Nothing new starts while a record that may hold GPUs cannot be read."
        found.append(Alert(f"{len(garbled)} records in the store cannot be read", doing, "failed"))
    stuck = _overlooked(picture, now_ms)
    if stuck:
        jobs = f"{stuck} job{'' if stuck == 1 else 's'}"
        doing = "The tick is woken each second; see that a worker of the queue “scheduler” runs."
        found.append(Alert(f"The queue is stuck: nobody looks at {jobs}", doing, "failed"))
    return found


def _overlooked(picture: Picture, now_ms: int) -> int:
    with picture.reading() as snapshot:
        return sum(
            1
            for job in snapshot.jobs.values()
            if job.phase is Phase.PENDING
            and job.decision.reason is None
            and job.decision.attempt == 0
            and not job.intent.hold
            and now_ms - job.spec.submitted_ms > STUCK_MS
        )


def _host_event(at: datetime, node: str, kind: str, detail: dict[str, Any]) -> HostEvent:
    xid = detail.get("xid")
    why = f"Xid {xid}" if xid is not None else detail.get("why") or detail.get("id") or ""
    what = detail.get("remedy") or detail.get("notice") or ""
    return HostEvent(clock.to_ms(at), node, kind, detail["state"], why, detail.get("gpu"), xid, what)


def _stopped(since: datetime) -> list[Stopped]:
    """The attempts that ended without a plan, with where they sat and where they went. Two queries."""
    stops = JobEvent.objects.filter(kind="stop", at__gte=since, detail__cause__in=_CAUSES, job__isnull=False)
    found = list(stops.order_by("-at", "-id")[:MOST_EVENTS].values_list("job_id", "attempt", "at", "detail__cause"))
    binds = _binds({job for job, *_ in found})
    answer = []
    for job, attempt, at, cause in found:
        _, seats = binds.get((job, attempt), (None, ()))
        again, to = binds.get((job, attempt + 1), (None, ()))
        answer.append(Stopped(job, clock.to_ms(at), cause, tuple(seats), _ms(again), tuple(to)))
    return answer


def _ms(at: datetime | None) -> int | None:
    return None if at is None else clock.to_ms(at)


def _binds(jobs: Iterable[str]) -> dict[tuple[str, int], tuple[datetime, Iterable[str]]]:
    rows = JobEvent.objects.filter(job_id__in=set(jobs), kind="bind").values_list("job_id", "attempt", "at", "detail")
    return {(job, attempt): (at, list(detail["gpus"])) for job, attempt, at, detail in rows}
