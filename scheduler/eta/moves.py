"""Why a start moved, from what is different since it was told before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.scratch import Records
from scheduler.core.types import HOLDING, Phase

LEAST_MS = 5 * 60_000
PART = 0.2
"""A start has moved if it did by five minutes and by a fifth of the wait that was told."""


class Moved(StrEnum):
    """The closed list, in the order in which one is believed."""

    QUOTA = "quota"
    CLUSTER = "cluster"
    P0 = "p0"
    RAN_LONG = "ran_long"
    ENDED_EARLY = "ended_early"
    OTHERS_CAME = "others_came"
    LEARNED = "learned"
    DRAWN = "drawn"


WORDS = {
    Moved.QUOTA: "the quota tree was changed",
    Moved.CLUSTER: "hosts were lost, came back or are held for others",
    Moved.P0: "a P0 job came",
    Moved.RAN_LONG: "a job ahead runs longer than expected",
    Moved.ENDED_EARLY: "a job ahead ended earlier than expected",
    Moved.OTHERS_CAME: "jobs came that are tried first or need the same GPUs",
    Moved.LEARNED: "run times were learned anew",
    Moved.DRAWN: "it was worked out anew, with nothing else changed",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster at a refresh, as far as a start may move by it. ``ends`` is by running job when it was expected to
    end, ``jobs`` by job its GPU type and priority, ``version`` that of the model."""

    at_ms: int
    quota: int
    hosts: int
    ends: Mapping[str, int]
    jobs: Mapping[str, tuple[str, int]]
    version: str


def seen(records: Records, ends: Mapping[str, int], version: str) -> Seen:
    """``hosts`` counts what takes work, as one figure that differs where the hosts do."""
    working = frozenset(
        (name, intent.cordon is None and intent.drain is None, decision.health if decision else None, alive)
        for name, (intent, decision, _, alive) in records.nodes.items()
    )
    jobs = {
        name: (intent.spec.gpu_type, intent.spec.priority)
        for name, (intent, decision) in records.jobs.items()
        if decision.phase is Phase.PENDING or decision.phase in HOLDING
    }
    bookings = frozenset((name, one.version) for name, one in records.bookings.items())
    return Seen(records.now_ms, records.quota.version, hash((working, bookings)), ends, jobs, version)


def has_moved(told_ms: int, before_ms: int, at_ms: int) -> bool:
    """Whether the difference is one to speak of; ``at_ms`` is when ``before_ms`` was told."""
    by = abs(told_ms - before_ms)
    return by >= LEAST_MS and by >= PART * max(0, before_ms - at_ms)


def why(job: str, later: bool, before: Seen, now: Seen) -> Moved:
    """What most likely moved the job's start, ``later`` or earlier."""
    gpu_type, priority = now.jobs[job]
    if before.quota != now.quota:
        return Moved.QUOTA
    if before.hosts != now.hosts:
        return Moved.CLUSTER
    came = [name for name in now.jobs.keys() - before.jobs.keys() if name != job]
    if later and any(now.jobs[name][1] == 0 for name in came):
        return Moved.P0
    if later and any(end < now.at_ms and name in now.ends for name, end in before.ends.items()):
        return Moved.RAN_LONG
    if not later and any(end > now.at_ms and name not in now.ends for name, end in before.ends.items()):
        return Moved.ENDED_EARLY
    if later and any(now.jobs[name][0] == gpu_type and now.jobs[name][1] <= priority for name in came):
        return Moved.OTHERS_CAME
    return Moved.LEARNED if before.version != now.version else Moved.DRAWN
