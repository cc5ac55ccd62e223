"""What repair would move now, whatever its mode: asked beside the live tick, on a snapshot of one's own."""

from __future__ import annotations

from scheduler.core.allocate import Allocation
from scheduler.core.draft import Draft
from scheduler.core.moves import Proposal
from scheduler.core.repair import Repair
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy
from scheduler.core.waiting import Weights


def proposals(snapshot: Snapshot, policy: Policy, now_ms: int) -> list[Proposal]:
    """In the order of the queue, each by itself: after one was carried out the others have to be asked for anew.

    The snapshot (see ``scratch``) is as before afterwards.
    """
    now_ms = max(now_ms, snapshot.now_ms)
    snapshot.tell_time(now_ms)
    snapshot.fade(policy.half_life_ms)
    snapshot.weigh(Weights.of(policy))
    draft = Draft(snapshot, policy, now_ms, 0)
    try:
        round_ = Allocation(draft)
        round_.run()
        return Repair(draft, round_.limits, round_.holds, round_.why).proposals()
    finally:
        draft.close()
