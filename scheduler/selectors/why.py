"""Why a job waits: the reason that the leader has on record, with the numbers behind it as they are now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scheduler.core.fragmentation import largest_gang
from scheduler.core.job import Job
from scheduler.core.queue import ranked
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, Phase, Policy, Reason
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class Why:
    """``free`` are the most GPUs of its type free in one zone, ``largest_gang`` the most that one gang could get.

    ``reason`` is None where the scheduler has not come to the job yet, ``position`` (from 1) where it is not tried now.
    ``waits_for`` names the jobs that have to succeed first, ``not_before_ms`` is when a back-off ends.
    """

    revision: int
    reason: str | None
    words: str
    position: int | None
    gpus: int
    gpu_type: str
    free: int
    largest_gang: int
    waits_for: tuple[str, ...]
    not_before_ms: int | None


_WORDS = {
    Reason.NEVER_FITS: "No part of the fleet could ever hold {gpus} {gpu_type} GPUs of this shape.",
    Reason.QUOTA_CEILING: "The ceiling of the team, or of a part of the organisation above it, is reached.",
    Reason.NOT_ENOUGH_FREE_GPUS: "It needs {gpus} {gpu_type} GPUs in one zone; at most {free} are free in one now.",
    Reason.FRAGMENTED: "{free} {gpu_type} GPUs are free in one zone, but in pieces: the largest gang that fits is "
    "{largest}, and it needs {gpus}.",
    Reason.TOPOLOGY: "{free} {gpu_type} GPUs are free in one zone, but not within the domain that it requires.",
    Reason.NOT_ENOUGH_CPU_OR_MEMORY: "GPUs are free, but not with the CPU, memory or scratch that it asks for.",
    Reason.HELD_FOR_LARGER_JOB: "GPUs are free, but a larger job has been promised them, and this one would delay it.",
    Reason.BEHIND_IN_QUEUE: "Other jobs are to be tried before it.",
    Reason.WAITING_FOR_PREEMPTION: "Its GPUs are being cleared: the jobs on them are saving their work.",
    Reason.DEPENDENCY: "It waits for {after} to succeed.",
    Reason.BACKOFF: "Its last attempt failed, so it waits a while before the next.",
    Reason.MAINTENANCE: "GPUs are free, but their hosts go into maintenance before it would end.",
    Reason.RESERVED: "GPUs are free, but reserved for another team from before it would end.",
    Reason.SPOT_NOT_ALLOWED: "GPUs are free on spot hosts alone, and it cannot save its work within their notice.",
    Reason.HELD_BY_USER: "It is held. Release it to have it tried.",
    Reason.SCHEDULER_DEGRADED: "The scheduler is not working normally, so nothing is started.",
}


def why(picture: Picture, policy: Policy, job_id: str, now_ms: int, teams: Collection[str] | None = None) -> Why | None:
    """Why the job waits; None for one that does not wait or is not in the live state.

    Args:
        teams: those whose jobs the asker may know by name; None: all.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        job = snapshot.jobs.get(job_id)
        if job is None or job.phase is not Phase.PENDING:
            return None
        order = ranked(snapshot, policy, now_ms)
        position = order.index(job_id) + 1 if job_id in order else None
        return _why(picture.revision, snapshot, job, position, teams)


def _why(revision: int, snapshot: Snapshot, job: Job, position: int | None, teams: Collection[str] | None) -> Why:
    spec, reason = job.spec, job.decision.reason
    free, largest = _room(snapshot, spec.gpu_type)
    unmet = [snapshot.jobs[name] for name in spec.after if name not in job.decision.met and name in snapshot.jobs]
    waits_for = tuple(other.id for other in unmet if teams is None or other.spec.team in teams)
    words = "The scheduler has not come to it yet."
    if reason is not None:
        words = _WORDS[reason].format(
            gpus=spec.gpus,
            gpu_type="" if spec.gpu_type == ANY_GPU_TYPE else spec.gpu_type,
            free=free,
            largest=largest,
            after=f"{len(unmet)} other job{'s' if len(unmet) != 1 else ''}",
        )
    return Why(
        revision=revision,
        reason=reason.value if reason else None,
        words=" ".join(words.split()),
        position=position,
        gpus=spec.gpus,
        gpu_type=spec.gpu_type,
        free=free,
        largest_gang=largest,
        waits_for=waits_for,
        not_before_ms=job.decision.not_before_ms or None,
    )


def _room(snapshot: Snapshot, gpu_type: str) -> tuple[int, int]:
    """GPUs of the type (or of any) that are free in one zone, and that one gang could get."""
    types = list(snapshot.topology.by_type) if gpu_type == ANY_GPU_TYPE else [gpu_type]
    zones = [zone for name in types for zone in snapshot.topology.by_type.get(name, ())]
    free = max((zone.free for zone in zones), default=0)
    return free, max((largest_gang(snapshot, name) for name in types), default=0)
