"""Steps 2 and 3 of a plan: bind whole gangs in queue order; plan the start of those that are blocked, and hold their
nodes; let through behind them what delays none of them.

Only groups of waiting jobs are walked for which something may have changed since the last plan. What does not fit for
one job of a shape is not tried for the others.
"""

from __future__ import annotations

from scheduler.core import attempts
from scheduler.core.draft import Draft
from scheduler.core.evict import Evictions
from scheduler.core.job import Job
from scheduler.core.lifecycle import remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Placement, Sieve, find, may_fit
from scheduler.core.queue import Walk
from scheduler.core.quota import Quota
from scheduler.core.repair import Repair
from scheduler.core.reserve import Holds
from scheduler.core.rows import NEVER
from scheduler.core.types import ANY_GPU_TYPE, Reason, Reservation
from scheduler.core.waiting import Group, Shape
from scheduler.core.why import Why
from scheduler.core.work import ALL


def allocate(draft: Draft) -> None:
    """Give away what is free, then write down the holds and the reasons of those that go on waiting."""
    if _quiet(draft):
        return
    waking = len(draft.wakes)
    round_ = Allocation(draft)
    round_.run()
    if draft.policy.order == "gangway":
        Evictions(draft, round_.limits, round_.holds).run()
        Repair(draft, round_.limits, round_.holds, round_.why).run()
    round_.holds.write()
    round_.why.write()
    draft.snapshot.quiet_until_ms = min(draft.wakes[waking:], default=NEVER)


def _quiet(draft: Draft) -> bool:
    """Whether nothing came free, nobody began to wait, and no time has come that this step waits for."""
    snapshot = draft.snapshot
    work = snapshot.work
    if work.gained or work.arrived or draft.released or snapshot.quiet_until_ms <= draft.now_ms:
        return False
    if snapshot.quiet_until_ms < NEVER:
        draft.wake(snapshot.quiet_until_ms)
    return True


class Allocation:
    """One walk through the queue."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.snapshot = draft.snapshot
        self.limits = Limits(draft.snapshot, draft.now_ms)
        self.why = Why(draft, self.limits)
        self.holds = Holds(draft, self.limits)
        self._shortest_refused: dict[object, int] = {}
        self._stuck: set[str] = set()
        self._fits: dict[Shape, bool] = {}
        self._holders: dict[Group, list[str]] = {}

    def run(self) -> None:
        self.holds.begin()
        walk = Walk(self.snapshot, self.draft.policy, self._groups())
        while (head := walk.head()) is not None:
            group, name = head
            self._try(walk, group, self.snapshot.jobs[name])
        self.holds.enforce()

    def _groups(self) -> list[Group]:
        """The groups in which a job may start, or be promised a start, that could not before."""
        snapshot, work = self.snapshot, self.snapshot.work
        in_order = not self.draft.policy.backfill or self.draft.policy.order == "fifo"
        fresh = {snapshot.jobs[name].group for name in work.arrived if name in snapshot.jobs}
        stirred = self._stirred(fresh)
        self._holders = self.holds.by_group()
        chosen = []
        for group in snapshot.waiting.groups.values():
            shape = group.shape
            if in_order or group in fresh:
                chosen.append(group)
                continue
            if not (ALL in stirred or shape.gpu_type in stirred or shape.gpu_type == ANY_GPU_TYPE):
                continue
            if group in self._holders or self.holds.room_for(shape):
                chosen.append(group)
                continue
            gained = ALL in work.gained or shape.gpu_type in work.gained or shape.gpu_type == ANY_GPU_TYPE
            if gained and (self._may_fit(shape) or self.why.due(group)):
                chosen.append(group)
        return chosen

    def _stirred(self, fresh: set[Group | None]) -> set[str]:
        """The GPU types of which promises, or who may have one, can have changed since the last plan."""
        timed = self.snapshot.windowed or self.snapshot.bookings or self.draft.policy.reservation_after_ms
        if timed or self.holds.stirred:
            return {ALL}
        arrived = {group.shape.gpu_type for group in fresh if group is not None}
        if ANY_GPU_TYPE in arrived:
            return {ALL}
        return arrived | self.snapshot.work.gained | self.holds.due_types

    def _try(self, walk: Walk, group: Group, job: Job) -> None:
        shape = group.shape
        allowed = self._allowed(group)
        if not allowed:
            self.why.note(group, Reason.QUOTA_CEILING)
            self._let_go(group)
            walk.dropped()
            return
        if shape.gpu_type in self._stuck or ANY_GPU_TYPE in self._stuck:
            self.why.note(group, Reason.BEHIND_IN_QUEUE)
            walk.dropped()
            return
        left = remaining_ms(job.spec, job.decision)
        own = self.holds.of(job.id)
        if self.limits.guarded:
            allowed = [name for name in allowed if self._leaves_room(group, job, name)]
            if not allowed:
                self._pass_below_ceiling(walk, group, job)
                return
        placement = None
        if self._may_fit(shape) and (own or not self._refused(group, left)):
            placement = self._find(group, job, left, allowed)
        if placement is not None:
            self._bind(walk, job, placement)
            return
        self._blocked(walk, group, job, allowed)

    def _allowed(self, group: Group) -> list[str]:
        """The GPU types of which the group's team may hold as many more."""
        shape = group.shape
        leaf = self.snapshot.quota.leaf(group.team)
        types = [shape.gpu_type] if shape.gpu_type != ANY_GPU_TYPE else list(self.snapshot.topology.by_type)
        return [name for name in types if Quota.barrier(leaf, name, shape.gpus, group.priority) is None]

    def _leaves_room(self, group: Group, job: Job, gpu_type: str) -> bool:
        """Whether the ceilings above the job hold beside it those for whom somebody below them was stopped."""
        asker, gpus = Asker(job.id, group.team, group.priority), group.shape.gpus
        for branch in self.snapshot.quota.leaf(group.team).path:
            ceiling = branch.node.ceiling.get(gpu_type)
            if ceiling is not None:
                kept = self.holds.kept_below(branch, gpu_type, asker)
                if kept and branch.held.get(gpu_type, 0) + kept + gpus > ceiling:
                    return False
        return True

    def _pass_below_ceiling(self, walk: Walk, group: Group, job: Job) -> None:
        self.why.passed(group)
        if self.holds.of(job.id):
            self.holds.passed(job)
        walk.passed()

    def _may_fit(self, shape: Shape) -> bool:
        """Whether counts alone let the gang in. What has not fitted once in a plan cannot fit later in it."""
        fits = self._fits.get(shape, True)
        if fits:
            fits = self._fits[shape] = may_fit(self.snapshot.topology, shape)
        return fits

    def _refused(self, group: Group, left: int) -> bool:
        shortest = self._shortest_refused.get(self._peers(group))
        return shortest is not None and left >= shortest

    def _peers(self, group: Group) -> object:
        """Those for whom the same bars hold: what was refused to one of them is refused to all that run as long."""
        if self.snapshot.bookings or self.limits.guarded or group.shape.gpu_type == ANY_GPU_TYPE:
            return group
        return group.shape, group.priority, self._within_floor(group)

    def _within_floor(self, group: Group) -> bool:
        """Whether floors count, and the group's team would not hold more than its own with one more of its jobs."""
        if not self.draft.policy.shares:
            return False
        return self.snapshot.quota.leaf(group.team).within_floor(group.shape.gpu_type, group.shape.gpus)

    def _find(self, group: Group, job: Job, left: int, allowed: list[str]) -> Placement | None:
        own = self.holds.of(job.id)
        # For whom somebody was stopped has no regard for what was planned behind it meanwhile: that is planned anew.
        asker = Asker(
            job.id,
            group.team,
            group.priority,
            over_plans=own is not None and own.firm,
            within_floor=self._within_floor(group),
        )
        sieve = Sieve(group.shape, self.limits, asker, self.draft.now_ms + left)
        placement = find(self.snapshot.topology, group.shape, sieve, allowed)
        if placement is None and own is None:
            self._shortest_refused[self._peers(group)] = left
        return placement

    def _bind(self, walk: Walk, job: Job, placement: Placement) -> None:
        draft = self.draft
        allocation = placement.slices()
        decision, events = attempts.bound(job, allocation, placement.gpu_type, draft.policy, draft.fence, draft.now_ms)
        nodes = [part.node for part in allocation]
        self.holds.bound(job.id, nodes)
        if job.id in draft.released:
            draft.pencil(job, decision)
        else:
            draft.decide(job, decision, events, tuple(nodes))
        walk.placed()

    def _blocked(self, walk: Walk, group: Group, job: Job, allowed: list[str]) -> None:
        """The job cannot start now: promise it a start if it is its turn, and go on behind it."""
        policy = self.draft.policy
        self.why.passed(group)
        if not policy.backfill or policy.order == "fifo":
            self._stuck.add(group.shape.gpu_type)
            walk.dropped()
            return
        if self.holds.of(job.id):
            self.holds.passed(job)
            walk.promised(group.shape.gpu_type, job.spec.gpus)
            return
        promised = self.holds.promise(group, job, allowed)
        if promised is not None:
            walk.promised(promised, job.spec.gpus)
        elif self.holds.room_for(group.shape):
            walk.passed()
        elif self._may_fit(group.shape):
            walk.skipped(self._shortest_refused[self._peers(group)], self._holders.get(group, ()))
        else:
            for name in self._holders.get(group, ()):
                if self.holds.of(name):
                    self.holds.passed(self.snapshot.jobs[name])
            walk.dropped()

    def _awaits(self, held: Reservation) -> bool:
        return held.firm and self.holds.awaits_stops(held)

    def _let_go(self, group: Group) -> None:
        """What cannot start whatever is free holds nothing, unless stops are under way that will let it."""
        for held in self.holds.all():
            if held.job is not None and self.snapshot.jobs[held.job].group is group and not self._awaits(held):
                self.holds.drop(held.job)
