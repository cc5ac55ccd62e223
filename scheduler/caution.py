"""What a leader still does while a part of the store is unreadable: it ends and frees, and it starts nothing.

A decision that cannot be read hides which GPUs its gang holds, so that any bind might give one away twice. What cannot
be read is never overwritten either, so a change that relies on it could not be committed and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.core.attempts import waits
from scheduler.core.types import (
    HOLDING,
    Change,
    JobChange,
    NodeChange,
    Phase,
    Plan,
    Reason,
    StopCause,
)
from scheduler.loader import Loader
from scheduler.store import keys

_FOR_ANOTHER = frozenset({StopCause.PREEMPT, StopCause.RECLAIM, StopCause.REPAIR})
"""Stops that are worth nothing unless somebody else is started on the GPUs."""


def hidden(loader: Loader) -> list[str]:
    """The keys for whose sake nothing may be started, in order; empty where all that starts rely on is known.

    They are the decisions that cannot be read, those of gangs whose job's wish cannot, and the quota tree and the holds
    where no earlier version is known either.
    """
    promises = [keys.INTENT_QUOTA, keys.DECISION_RESERVATIONS]
    unknown = {key for key in promises if key in loader.garbled and not loader.mod(key)}
    unknown |= {key for key in loader.garbled if key.startswith(keys.DECISION_JOBS)}
    return sorted(unknown | {keys.decision_job(job) for job in loader.unclaimed})


def careful(decided: Plan, loader: Loader, now_ms: int) -> Plan:
    """The plan without what relies on something unreadable, and, where GPUs may be hidden, without starts.

    A job that would have started waits for ``SCHEDULER_DEGRADED`` instead.
    """
    blind = bool(hidden(loader))
    if not blind and not loader.garbled:
        return decided
    kept: list[Change] = []
    for change in decided.changes:
        if any(key in loader.garbled for key in _relied_on(change)):
            continue
        if not (blind and isinstance(change, JobChange)):
            kept.append(change)
        elif _starts(change, loader):
            kept.extend(_degraded(change.job, loader, now_ms))
        elif not _evicts(change, loader):
            kept.append(change)
    return replace(decided, changes=tuple(kept))


def _relied_on(change: Change) -> Iterable[str]:
    if isinstance(change, JobChange):
        return (keys.decision_job(change.job), keys.intent_job(change.job), *map(keys.intent_node, change.nodes))
    return (keys.decision_node(change.node) if isinstance(change, NodeChange) else keys.DECISION_RESERVATIONS,)


def _starts(change: JobChange, loader: Loader) -> bool:
    return change.decision.phase in HOLDING and not loader.snapshot.jobs[change.job].held


def _evicts(change: JobChange, loader: Loader) -> bool:
    stop = change.decision.stop
    stopped = change.decision.phase is Phase.STOPPING and loader.snapshot.jobs[change.job].phase is not Phase.STOPPING
    return stopped and stop is not None and stop.cause in _FOR_ANOTHER


def _degraded(job_id: str, loader: Loader, now_ms: int) -> list[JobChange]:
    """What tells the job's people why it does not start; nothing where it is told already."""
    job = loader.snapshot.jobs[job_id]
    if job.decision.reason is Reason.SCHEDULER_DEGRADED:
        return []
    told = waits(job, Reason.SCHEDULER_DEGRADED, now_ms)
    return [JobChange(job_id, replace(job.decision, reason=Reason.SCHEDULER_DEGRADED), (told,))]
