"""From the cluster as it is to what shall be done: ``plan()``, in fixed order, from the least disruptive step on."""

from __future__ import annotations

from scheduler.core import relocate
from scheduler.core.allocate import allocate
from scheduler.core.draft import Draft
from scheduler.core.settle import settle
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Plan, Policy
from scheduler.core.waiting import Weights


def plan(snapshot: Snapshot, policy: Policy, now_ms: int, fence: int) -> Plan:
    """Decide what to commit now, in order. Leaves no trace in the snapshot.

    Args:
        snapshot: the cluster; every record that changed since the last plan has been fed to it.
        policy: how to decide.
        now_ms: the time; it never goes back from one plan of a snapshot to the next.
        fence: the leader's fencing token, noted with every bind.
    """
    snapshot.tell_time(now_ms)
    snapshot.fade(policy.half_life_ms)
    snapshot.weigh(Weights.of(policy))
    snapshot.work.begin()
    taken = snapshot.work.copy()
    draft = Draft(snapshot, policy, now_ms, fence)
    settle(draft)
    relocate.book(draft)
    draft.giving = False
    allocate(draft)
    relocate.leave(draft)
    decided = draft.close()
    draft.wake(snapshot.next_timer())
    wake = min(draft.wakes) if draft.wakes else None
    snapshot.work.end(taken, draft.expected(), draft.late)
    snapshot.planned_ms = now_ms
    return Plan(decided.changes, wake)
