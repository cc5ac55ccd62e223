"""The starts as they were told last: in Redis for whoever shows them, and unknown without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobSpec, Phase
from scheduler.eta.past import size_class
from scheduler.published import Published

KEY = "gangway:etas"
KEPT_S = 180


@dataclass(frozen=True, slots=True)
class Likely:
    """P50 and P90 of a start in ms, what the run times were taken from, and why it moved last."""

    p50_ms: int
    p90_ms: int
    basis: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Etas:
    """What was told at ``made_ms``, by job; a job that is not in it has no basis, or starts too far away to say."""

    made_ms: int = 0
    jobs: Mapping[str, Likely] = field(default_factory=dict)

    def of(self, job: str, now_ms: int) -> Likely | None:
        """Never in the past: what was told for a moment that has come is told for now."""
        one = self.jobs.get(job)
        if one is None or (one.p50_ms >= now_ms and one.p90_ms >= now_ms):
            return one
        return Likely(max(one.p50_ms, now_ms), max(one.p90_ms, now_ms), one.basis, one.why)


def alike(snapshot: Snapshot, known: Etas, spec: JobSpec, now_ms: int) -> Likely | None:
    """What is told of the job that came last of those that wait and are like this one; None where none is told."""
    found = [
        job
        for job in snapshot.pick(known.jobs)
        if job.phase is Phase.PENDING
        and job.spec.gpu_type == spec.gpu_type
        and job.spec.priority == spec.priority
        and size_class(job.spec.gpus) == size_class(spec.gpus)
    ]
    newest = max(found, key=lambda job: job.spec.submitted_ms, default=None)
    return known.of(newest.id, now_ms) if newest is not None else None


def publish(etas: Etas) -> None:
    """Raises redis.RedisError."""
    jobs = {job: [one.p50_ms, one.p90_ms, one.basis, one.why] for job, one in etas.jobs.items()}
    PUBLISHED.put([etas.made_ms, jobs], KEPT_S)


def etas(ticking_ms: Callable[[], int]) -> Etas:
    """What is published; nothing where there is nothing."""
    return PUBLISHED.get(ticking_ms)


def _etas(raw: Any) -> Etas:
    made_ms, jobs = raw
    return Etas(made_ms, {job: Likely(*fields) for job, fields in jobs.items()})


PUBLISHED = Published(KEY, _etas, Etas())
