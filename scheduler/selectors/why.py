"""Why a job waits: the reason that the leader has on record, with the numbers behind it as they are now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scheduler.core.fragmentation import largest_gang
from scheduler.core.job import Job
from scheduler.core.queue import ranked
from scheduler.core.reasons import Explanation, explain
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, Phase, Policy, Reason
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that has GPUs which the waiting one is to get, and until when by its limit."""

    job: str | None
    team: str
    gpus: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """``field`` is the last step of the path in the body of a submission."""

    field: str
    value: str | int
    words: str


@dataclass(frozen=True, slots=True)
class Why:
    """``free`` are the most GPUs of its type free in one zone, ``largest_gang`` the most that one gang could get.

    ``reason`` is None where the scheduler has not come to the job yet, ``position`` (from 1) where it is not tried now.
    ``waits_for`` names the jobs that have to succeed first, ``not_before_ms`` is when a back-off ends. ``start_ms`` is
    the planned start, ``holders`` who has the GPUs that it is to get (``job`` None where it is another team's), and
    ``changes`` the changes of one wish, smallest first, that would start it now.
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
    start_ms: int | None = None
    holders: tuple[Holder, ...] = ()
    changes: tuple[Change, ...] = ()


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
        found = explain(snapshot, policy, job_id, now_ms)
        return _why(picture.revision, snapshot, job, found, position, teams)


def _why(
    revision: int,
    snapshot: Snapshot,
    job: Job,
    found: Explanation,
    position: int | None,
    teams: Collection[str] | None,
) -> Why:
    spec, recorded = job.spec, job.decision.reason
    free, largest = _room(snapshot, spec.gpu_type)
    unmet = [snapshot.jobs[name] for name in found.after if name in snapshot.jobs]
    return Why(
        revision=revision,
        reason=recorded.value if recorded else None,
        words=_words(found, recorded, len(unmet)),
        position=position,
        gpus=spec.gpus,
        gpu_type=spec.gpu_type,
        free=free,
        largest_gang=largest,
        waits_for=tuple(other.id for other in unmet if teams is None or other.spec.team in teams),
        not_before_ms=job.decision.not_before_ms or None,
        start_ms=found.start_ms,
        holders=tuple(
            Holder(one.job if teams is None or one.team in teams else None, one.team, one.gpus, one.until_ms)
            for one in found.holders
        ),
        changes=tuple(Change(one.field, one.value, one.words) for one in found.changes),
    )


def _words(found: Explanation, recorded: Reason | None, unmet: int) -> str:
    if recorded is None:
        return "The scheduler has not come to it yet."
    if found.reason is Reason.DEPENDENCY:  # told without the ids, which may be other people's
        return f"It waits for {unmet} other job{'s' if unmet != 1 else ''} to succeed."
    return found.words


def _room(snapshot: Snapshot, gpu_type: str) -> tuple[int, int]:
    """GPUs of the type (or of any) that are free in one zone, and that one gang could get."""
    types = list(snapshot.topology.by_type) if gpu_type == ANY_GPU_TYPE else [gpu_type]
    zones = [zone for name in types for zone in snapshot.topology.by_type.get(name, ())]
    free = max((zone.free for zone in zones), default=0)
    return free, max((largest_gang(snapshot, name) for name in types), default=0)
