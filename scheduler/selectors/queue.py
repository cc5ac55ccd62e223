"""The queue as the planner would try it, and where one job stands in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.job import Job
from scheduler.core.queue import ranked
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Phase, Policy
from scheduler.eta.published import Etas
from scheduler.expected import Expected
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A waiting job. ``id``, ``name`` and ``owner`` are None where the asker may only know of its team and size.

    ``position`` counts from 1; None for a job that is not being tried now (held, backing off, waiting for another).
    ``eta_ms`` is its expected start by the limits of what runs, ``p50_ms`` and ``p90_ms`` that by learned run times:
    as likely before as after, and by then nine times in ten. None while unknown.
    """

    position: int | None
    id: str | None
    name: str | None
    owner: str | None
    team: str
    priority: int
    gpus: int
    gpu_type: str
    hint: str
    submitted_ms: int
    attempt: int
    reason: str | None
    hold: bool
    eta_ms: int | None = None
    p50_ms: int | None = None
    p90_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting jobs at ``revision``; ``total`` counts those that ``rows`` was cut short of, too."""

    revision: int
    fresh: bool
    stale_since_ms: int | None
    total: int
    gpus: int
    rows: tuple[QueueRow, ...]


def queue(
    picture: Picture,
    policy: Policy,
    now_ms: int,
    *,
    teams: Collection[str] | None = None,
    only_teams: Collection[str] | None = None,
    gpu_type: str = "",
    limit: int = 500,
    expected: Expected | None = None,
    likely: Etas | None = None,
) -> Queue:
    """The first ``limit`` waiting jobs in the order in which they would be tried, those not tried now at the end.

    ``teams`` are those whose jobs the asker may know by name (None: all); ``only_teams`` narrows the rows.
    ``expected`` is the forecast of starts by limits, ``likely`` that by learned run times, where the asker wants to
    see them.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        tried = ranked(snapshot, policy, now_ms)
        places = {job: place for place, job in enumerate(tried, start=1)}
        wanted = [
            job
            for job in _waiting(snapshot, tried)
            if (only_teams is None or job.spec.team in only_teams) and (not gpu_type or job.spec.gpu_type == gpu_type)
        ]
        known = expected if expected is not None else Expected()
        rows = tuple(
            replace(
                _row(job, places.get(job.id), teams),
                eta_ms=known.start_ms(job.id, now_ms),
                **_likely(likely, job.id, now_ms),
            )
            for job in wanted[:limit]
        )
        gpus = sum(job.spec.gpus for job in wanted)
        return Queue(picture.revision, picture.fresh, picture.stale_since_ms, len(wanted), gpus, rows)


def queue_position(picture: Picture, policy: Policy, job_id: str, priority: int, now_ms: int) -> int | None:
    """Where a job stands in the queue, from 1. One that the picture does not know yet stands behind its own class.

    None for a job that is not being tried now, or while the live state was never loaded.
    """
    if not picture.revision:
        return None
    with picture.reading() as snapshot:
        if job_id not in snapshot.jobs:
            groups = snapshot.waiting.groups.values()
            return 1 + sum(len(group.jobs) for group in groups if group.priority <= priority)
        order = ranked(snapshot, policy, now_ms)
        return order.index(job_id) + 1 if job_id in order else None


def _likely(likely: Etas | None, job_id: str, now_ms: int) -> dict[str, Any]:
    one = likely.of(job_id, now_ms) if likely is not None else None
    return {} if one is None else {"p50_ms": one.p50_ms, "p90_ms": one.p90_ms}


def _waiting(snapshot: Snapshot, tried: list[str]) -> list[Job]:
    """The jobs tried, in that order, then the pending ones that are not, by class and age."""
    known = set(tried)
    idle = [job for job in snapshot.jobs.values() if job.phase is Phase.PENDING and job.id not in known]
    idle.sort(key=lambda job: (job.priority, job.spec.submitted_ms, job.id))
    return [snapshot.jobs[job] for job in tried] + idle


def _row(job: Job, position: int | None, teams: Collection[str] | None) -> QueueRow:
    known = teams is None or job.spec.team in teams
    decision = job.decision
    return QueueRow(
        position=position,
        id=job.id if known else None,
        name=job.spec.name if known else None,
        owner=job.spec.owner if known else None,
        team=job.spec.team,
        priority=job.priority,
        gpus=job.spec.gpus,
        gpu_type=job.spec.gpu_type,
        hint=job.spec.hint.value,
        submitted_ms=job.spec.submitted_ms,
        attempt=decision.attempt if decision else 0,
        reason=decision.reason.value if decision and decision.reason else None,
        hold=job.intent.hold,
    )
