"""A second snapshot to try things out on, made of the records of a first one.

What is asked of "what if" takes longer than the picture that everybody reads may be held still. So only references to
its records are taken while it is held (they never change), and whatever is tried happens on a snapshot of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.job import NEW
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    JobDecision,
    JobIntent,
    NodeDecision,
    NodeIntent,
    NodeReport,
    QuotaTree,
    ReservationIntent,
    Reservations,
)
from scheduler.core.usage import Fading
from scheduler.core.work import Work

JobRecords = tuple[JobIntent, JobDecision]
NodeRecords = tuple[NodeIntent, NodeDecision | None, NodeReport | None, bool]


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that a snapshot holds, as it was fed. ``past`` is the fading use by name of the quota tree's node."""

    jobs: dict[str, JobRecords]
    nodes: dict[str, NodeRecords]
    quota: QuotaTree
    reservations: Reservations
    bookings: dict[str, ReservationIntent]
    fading: Fading
    past: dict[str, dict[str, int]]
    now_ms: int


def records(snapshot: Snapshot) -> Records:
    """Take the records of a snapshot: about a microsecond a job and a node."""
    quota = snapshot.quota
    nodes = {
        name: (node.intent, node.decision, node.report, node.alive)
        for name, node in snapshot.nodes.items()
        if node.intent is not None
    }
    past = {branch.name: dict(branch.past) for branch in quota.root.below() if branch.past}
    return Records(
        jobs={name: (job.intent, job.decision) for name, job in snapshot.jobs.items()},
        nodes=nodes,
        quota=quota.tree,
        reservations=snapshot.reservations,
        bookings=dict(snapshot.bookings),
        fading=snapshot.fading,
        past=past,
        now_ms=snapshot.now_ms,
    )


class Scratch:
    """A snapshot that follows the records of another one, so that only what changed in between is fed again."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._jobs: dict[str, JobRecords] = {}
        self._nodes: dict[str, NodeRecords] = {}
        self._quota: QuotaTree | None = None

    def follow(self, seen: Records) -> Snapshot:
        """Bring the snapshot to what ``seen`` holds and answer it. Nothing in it waits to be looked at by a plan."""
        snapshot = self.snapshot
        snapshot.tell_time(max(seen.now_ms, snapshot.now_ms))
        snapshot.fading = seen.fading
        changed = [name for name, now in seen.jobs.items() if not _same(self._jobs.get(name), now)]
        # All that changed leaves before any of it comes back: two gangs may have swapped their GPUs meanwhile.
        self._drop_jobs([*(self._jobs.keys() - seen.jobs.keys()), *changed])
        self._feed_nodes(seen)
        if self._quota is not seen.quota:
            snapshot.set_quota(seen.quota)
            self._quota = seen.quota
        for name in changed:
            self._feed_job(name, seen.jobs[name])
        snapshot.set_reservations(seen.reservations)
        for name in [*(snapshot.bookings.keys() - seen.bookings.keys()), *seen.bookings]:
            snapshot.set_reservation_intent(name, seen.bookings.get(name))
        self._remember(seen)
        # The leader has asked for all that wait whether they may evict somebody; here only newcomers are asked.
        snapshot.waiting.count_as_asked(snapshot.now_ms)
        snapshot.evict_again_ms = None
        snapshot.work = Work()
        return snapshot

    def _drop_jobs(self, names: Iterable[str]) -> None:
        for name in names:
            if self._jobs.pop(name, None) is not None:
                self.snapshot.set_job_intent(name, None)

    def _feed_job(self, name: str, now: JobRecords) -> None:
        intent, decision = now
        if decision is not NEW:
            self.snapshot.set_job_decision(name, decision)
        self.snapshot.set_job_intent(name, intent)
        self._jobs[name] = now

    def _feed_nodes(self, seen: Records) -> None:
        snapshot = self.snapshot
        for name in self._nodes.keys() - seen.nodes.keys():
            snapshot.set_node_intent(name, None)
            snapshot.set_node_decision(name, None)
            snapshot.set_node_report(name, None)
            snapshot.set_node_alive(name, False)
            del self._nodes[name]
        for name, now in seen.nodes.items():
            known = self._nodes.get(name, (None, None, None, False))
            if _same(known, now):
                continue
            intent, decision, report, alive = now
            if known[0] is not intent:
                snapshot.set_node_intent(name, intent)
            if known[1] is not decision:
                snapshot.set_node_decision(name, decision)
            if known[2] is not report:
                snapshot.set_node_report(name, report)
            if known[3] != alive:
                snapshot.set_node_alive(name, alive)
            self._nodes[name] = now

    def _remember(self, seen: Records) -> None:
        """Count recent use as the first snapshot does: it has seen gangs that are gone by now."""
        quota = self.snapshot.quota
        for branch in quota.root.below():
            branch.past = {}
        for name, amounts in seen.past.items():
            branch = quota.root if not name else quota.by_name.get(name) or quota.leaf(name)
            branch.past = dict(amounts)


def _same(one: tuple[object, ...] | None, other: tuple[object, ...]) -> bool:
    return one is not None and all(mine is theirs for mine, theirs in zip(one, other, strict=True))
