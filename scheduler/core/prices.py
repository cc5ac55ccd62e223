"""What stopping a job costs, so that victims can be compared."""

from __future__ import annotations

from scheduler.core.job import Job
from scheduler.core.spent import RESTART_MS

CLASS_BITS = 64
"""A class's price is above every price in GPU-milliseconds of the classes below it by so many bits."""

LEAST_IMPORTANT = 3


def price(job: Job, now_ms: int) -> int:
    """What stopping the job costs, in GPU-milliseconds, its class counted in."""
    decision = job.decision
    since = decision.started_ms if decision.started_ms is not None else now_ms
    if job.spec.checkpoint is not None:
        since = max(since, decision.saved_at_ms)
    work = job.spec.gpus * (max(0, now_ms - since) + RESTART_MS)
    rank = max(0, LEAST_IMPORTANT - job.priority)
    return work + (job.spec.gpus << (CLASS_BITS * rank) if rank else 0)
