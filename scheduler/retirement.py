"""Jobs that ended leave the state store once their history is recorded: the store holds what lives.

Which jobs are still there is a column of their rows, so that a pass that was cut off is done again by the next one.

A job leaves a mark behind that ends by its lease. Deliveries compare it: one that was not answered in its time may
reach the store after the job's whole life, and would find its key absent, as if the job were new.
"""

from __future__ import annotations

import structlog

from scheduler.core.types import TERMINAL, JobDecision, Phase
from scheduler.models import Job
from scheduler.store import codec, keys
from scheduler.store.base import Compare, Delete, Put, Store

log = structlog.get_logger(__name__)

BATCH = 200
"""Jobs taken out in one pass; the next pass goes on."""
MARK_S = 600
"""How long the mark stays: far longer than any call of a store may take, so that none of them outlives it."""

_LIVE = [phase.value for phase in Phase if phase not in TERMINAL]


def retire(store: Store, limit: int = BATCH) -> int:
    """Take recorded jobs out of the store, except those that a live job waits for; answers how many went.

    Raises:
        StoreUnavailable: some may have gone; the next pass finds out.
    """
    ended = Job.objects.filter(in_store=True, state__in=[phase.value for phase in TERMINAL])
    waited_for = Job.objects.filter(in_store=True, state__in=_LIVE, after__isnull=False).values("after")
    due = list(ended.exclude(pk__in=waited_for).order_by("ended_at").values_list("pk", flat=True)[:limit])
    if not due:
        return 0
    marks = store.grant(MARK_S)
    gone = [job_id for job_id in due if _take_out(store, job_id, marks)]
    Job.objects.filter(pk__in=gone).update(in_store=False)
    return len(gone)


def _take_out(store: Store, job_id: str, marks: int) -> bool:
    """Replace the job's intent and decision by a mark, bound to the lease ``marks``; answers whether both are gone."""
    key = keys.decision_job(job_id)
    entry = store.get(key)
    if entry is not None and codec.decode(JobDecision, entry.value).phase not in TERMINAL:
        log.error("a job is over by its history and lives in the store; it stays there", job=job_id)
        return False
    mod = entry.mod_revision if entry is not None else 0
    mark = Put(keys.left_job(job_id), b"", marks)
    return store.commit([Compare(key, mod=mod)], [Delete(key), Delete(keys.intent_job(job_id)), mark]).ok
