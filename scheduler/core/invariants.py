"""What no plan may break, checked against the snapshot that it was made from; independent of how plans are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.core.lifecycle import may_move
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node
from scheduler.core.types import (
    ANY_GPU_TYPE,
    ENDED_RANK,
    HOLDING,
    EventKind,
    Health,
    JobChange,
    JobDecision,
    NodeChange,
    Phase,
    Plan,
    Policy,
    RankState,
    ReservationsChange,
    StopCause,
)

UNPLANNED = frozenset({StopCause.NODE_FAILURE, StopCause.RANK_FAILURE, StopCause.START_TIMEOUT})
FOR_OTHERS = frozenset({StopCause.PREEMPT, StopCause.RECLAIM, StopCause.REPAIR})


def check(snapshot: Snapshot, plan: Plan, policy: Policy, now_ms: int) -> list[str]:
    """The violations, in words; empty if the plan may be committed. The snapshot is as before the plan."""
    return list(_Replay(snapshot, plan, now_ms).run())


class _Replay:
    """Goes through the changes in their order on a plain picture of who owns what."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now_ms: int) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._now_ms = now_ms
        self._owner: dict[tuple[str, int], str] = {}
        self._touched = {
            part.node for change in plan.changes if isinstance(change, JobChange) for part in change.decision.allocation
        }
        """The nodes on which the plan has something run: only there a GPU could get a second owner."""
        self._use: dict[tuple[str, str], int] = {}
        for job in snapshot.jobs.values():
            if job.phase in HOLDING:
                self._own(job.id, job.decision)
        self._decisions: dict[str, JobDecision] = {}
        self._healths = {change.node: change.decision for change in plan.changes if isinstance(change, NodeChange)}
        self._health: dict[str, Health] = {}

    def _own(self, job: str, decision: JobDecision) -> list[tuple[str, int]]:
        """Enter what the decision holds; answers the GPUs that somebody else has."""
        clash = []
        for part in decision.allocation:
            if part.node not in self._touched:
                continue
            for gpu in part.gpus:
                if self._owner.setdefault((part.node, gpu), job) != job:
                    clash.append((part.node, gpu))
        self._count(job, decision, 1)
        return clash

    def _disown(self, job: str, decision: JobDecision) -> None:
        for part in decision.allocation:
            for gpu in part.gpus:
                if self._owner.get((part.node, gpu)) == job:
                    del self._owner[part.node, gpu]
        self._count(job, decision, -1)

    def _count(self, job: str, decision: JobDecision, sign: int) -> None:
        spec = self._snapshot.jobs[job].spec
        for branch in self._snapshot.quota.leaf(spec.team).path:
            key = (branch.name, decision.gpu_type)
            self._use[key] = self._use.get(key, 0) + sign * spec.gpus

    def run(self) -> Iterator[str]:
        for change in self._plan.changes:
            if isinstance(change, NodeChange):
                self._health[change.node] = change.decision.health
            elif isinstance(change, JobChange):
                for wrong in self._job(change):
                    yield f"{change.job}: {wrong}"
        yield from self._in_vain()

    def _job(self, change: JobChange) -> Iterator[str]:
        job = self._snapshot.jobs.get(change.job)
        if job is None:
            yield "nobody wishes for it"
            return
        old, new = self._decisions.get(change.job, job.decision), change.decision
        self._decisions[change.job] = new
        if old.phase is Phase.STARTING and any(event.kind is EventKind.START for event in change.events):
            yield from self._started(change)
            old = replace(old, phase=Phase.RUNNING)  # one change may hold a start and what followed on it
        if old.phase is not new.phase and not may_move(old.phase, new.phase):
            yield f"moves from {old.phase} to {new.phase}"
        if old.phase in HOLDING and new.phase in HOLDING and old.allocation != new.allocation:
            yield "changes its GPUs within an attempt"
        if old.phase in HOLDING and new.phase not in HOLDING:
            yield from self._released(change, old)
            self._disown(change.job, old)
        if new.phase in HOLDING and old.phase not in HOLDING:
            yield from self._bound(change)
        if old.phase is Phase.STARTING and new.phase is Phase.RUNNING:
            yield "runs without having been started"

    def _bound(self, change: JobChange) -> Iterator[str]:
        spec, new = self._snapshot.jobs[change.job].spec, change.decision
        count = sum(len(set(part.gpus)) for part in new.allocation)
        if count != spec.gpus or len({part.node for part in new.allocation}) != len(new.allocation):
            yield f"holds {count} of {spec.gpus} GPUs"
        if spec.gpu_type not in (ANY_GPU_TYPE, new.gpu_type):
            yield f"bound to {new.gpu_type} instead of {spec.gpu_type}"
        zones = set()
        for part in new.allocation:
            node = self._snapshot.nodes.get(part.node)
            if node is None or node.intent is None:
                yield f"bound to {part.node}, which is no node"
                continue
            zones.add((node.intent.az, node.intent.gpu_type))
            if not node.takes_work(self._health.get(part.node)) or node.in_maintenance(self._now_ms):
                yield f"bound to {part.node}, which takes no work"
            if any(node.faulty >> gpu & 1 or not node.all_mask >> gpu & 1 for gpu in part.gpus):
                yield f"bound to a broken GPU of {part.node}"
        if len(zones) > 1:
            yield f"bound across {sorted(zones)}"
        for name, gpu in self._own(change.job, new):
            yield f"GPU {gpu} of {name} belongs to {self._owner[name, gpu]}"
        yield from self._ceilings(change)

    def _takes_work(self, node: Node) -> bool:
        """Whether new work may go to the node, by its health as the plan itself decides it."""
        decided = self._healths.get(node.name)
        if decided is None:
            return node.takes_work()
        kept, node.decision = node.decision, decided
        try:
            return node.takes_work()
        finally:
            node.decision = kept

    def _ceilings(self, change: JobChange) -> Iterator[str]:
        spec, gpu_type = self._snapshot.jobs[change.job].spec, change.decision.gpu_type
        for branch in self._snapshot.quota.leaf(spec.team).path:
            ceiling = branch.node.ceiling.get(gpu_type)
            used = self._use[branch.name, gpu_type]
            if ceiling is not None and used > ceiling:
                yield f"brings {branch.name or 'the root'} to {used} {gpu_type} GPUs, its ceiling is {ceiling}"

    def _started(self, change: JobChange) -> Iterator[str]:
        for part in change.decision.allocation:
            gang = self._snapshot.node(part.node).gangs.get(change.job)
            ready = gang is not None and gang.attempt == change.decision.attempt
            if gang is None or not ready or any(rank.state is RankState.PREPARING for rank in gang.ranks):
                yield f"started before its ranks on {part.node} are ready"

    def _released(self, change: JobChange, old: JobDecision) -> Iterator[str]:
        stop = change.decision.stop
        if old.phase is not Phase.STOPPING or stop is None or stop.cause in UNPLANNED:
            return
        if stop.saved or stop.over or (stop.deadline_ms is not None and self._now_ms >= stop.deadline_ms):
            return
        for part in old.allocation:
            node = self._snapshot.node(part.node)
            gang = node.gangs.get(change.job)
            if node.health is Health.DOWN or node.intent is None or gang is None or gang.attempt != old.attempt:
                continue
            if any(rank.state not in ENDED_RANK for rank in gang.ranks):
                yield f"freed before its ranks on {part.node} have saved or ended"

    def _in_vain(self) -> Iterator[str]:
        """Nothing is stopped for a job that the plan does not hold a place for."""
        held = self._snapshot.reservations
        for change in self._plan.changes:
            if isinstance(change, ReservationsChange):
                held = change.reservations
        places = {one.job for one in held.held}
        for change in self._plan.changes:
            if not isinstance(change, JobChange):
                continue
            stops = [event for event in change.events if event.kind is EventKind.STOP]
            for event in stops:
                asker = event.detail.get("for")
                planned = asker in places or (asker in self._decisions and self._decisions[asker].phase in HOLDING)
                if event.detail["cause"] in FOR_OTHERS and not planned:
                    yield f"{change.job}: stopped for {asker}, for which no place is held"
