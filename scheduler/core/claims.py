"""Who may take back whose place: rights by floor and share, as the plan's stops add up.

*Use* here is what a node of the quota tree will hold when the stops under way are done: what is stopping does not
count, what is held for a job that waits for them does. What a node *keeps* is its use without such promises: nobody is
left below a floor on the strength of GPUs that are only coming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil, floor

from scheduler.core.attempts import DAY_MS
from scheduler.core.draft import Draft
from scheduler.core.entitlement import entitlements
from scheduler.core.job import Job
from scheduler.core.quota import Branch
from scheduler.core.types import ANY_GPU_TYPE, Policy, Reservation
from scheduler.core.waiting import Group

SWAP_MS = 3_600_000
"""Within so long a job takes nothing back, by its share, from the one that it was stopped for."""


class Claims:
    """The rights concerning one GPU type, at one moment of a plan.

    ``most`` and ``least`` are what a branch may call its own, in whole GPUs, rounded against the asker: to add to its
    use, and to take from it. ``lenders`` are the teams that hold more than their own. ``stopping`` GPUs are held by
    gangs that are being stopped; ``free`` is the most that is free in a zone.
    """

    def __init__(self, draft: Draft, gpu_type: str, promised: Iterable[Reservation]) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self.gpu_type = gpu_type
        self.use: dict[Branch, int] = {}
        self.kept: dict[Branch, int] = {}
        self._least_run: dict[Branch, int] = {}
        self._ways: dict[tuple[Branch, Branch], tuple[list[Branch], list[Branch]]] = {}
        for branch in self._snapshot.quota.root.below():
            self.use[branch] = self.kept[branch] = branch.held.get(gpu_type, 0)
        self.stopping = 0
        for name in self._snapshot.stopping:
            job = self._snapshot.jobs[name]
            if job.decision.gpu_type == gpu_type:
                self.take(job)
                self.stopping += job.spec.gpus
        for held in promised:
            waiting = self._snapshot.jobs.get(held.job) if held.job is not None else None
            if waiting is not None and held.firm and held.gpu_type == gpu_type:
                self.give(waiting)
        self.free = max((zone.free for zone in self._snapshot.topology.by_type.get(gpu_type, ())), default=0)
        own = self._entitlements()
        self.most = {branch: floor(right) for branch, right in own.items()}
        self.least = {branch: ceil(right) for branch, right in own.items()}
        self.lenders = {
            branch for branch, kept in self.kept.items() if not branch.children and kept > self.most.get(branch, 0)
        }

    def give(self, job: Job) -> None:
        """Count the job's GPUs as used by its team: they are promised to it."""
        for branch in self._snapshot.quota.leaf(job.spec.team).path:
            self.use[branch] = self.use.get(branch, 0) + job.spec.gpus

    def take(self, job: Job) -> None:
        """Count the job's GPUs as used by its team no more: it is being stopped."""
        for branch in self._snapshot.quota.leaf(job.spec.team).path:
            self.use[branch] = self.use.get(branch, 0) - job.spec.gpus
            self.kept[branch] = self.kept.get(branch, 0) - job.spec.gpus

    def could_reclaim(self, group: Group) -> bool:
        """A quick no for a whole group."""
        leaf = self._snapshot.quota.leaf(group.team)
        return bool(self.lenders) and self.use.get(leaf, 0) + group.shape.gpus <= self.most.get(leaf, 0)

    def _entitlements(self) -> dict[Branch, Fraction]:
        quota, topology = self._snapshot.quota, self._snapshot.topology
        wanted: dict[Branch, int] = {}
        for branch in quota.by_name.values():
            if not branch.children:
                wanted[branch] = branch.held.get(self.gpu_type, 0)
        for group in self._snapshot.waiting.groups.values():
            if group.shape.gpu_type in (self.gpu_type, ANY_GPU_TYPE):
                leaf = quota.leaf(group.team)
                wanted[leaf] = wanted.get(leaf, 0) + group.shape.gpus * len(group.jobs)
        usable = sum(zone.free for zone in topology.by_type.get(self.gpu_type, ()))
        usable += quota.root.held.get(self.gpu_type, 0)
        return entitlements(quota.root, self.gpu_type, usable, wanted)

    # --- reclaim ------------------------------------------------------------------------------------------------

    def may_reclaim(self, job: Job) -> bool:
        """Whether the job's team would still be within its own with the job: it may then take back from others."""
        leaf = self._snapshot.quota.leaf(job.spec.team)
        if leaf.closed or not self._within(leaf, job.spec.gpus):
            return False
        return self._below_floor(leaf, job.spec.gpus) or patient(self._draft, job)

    def _within(self, branch: Branch, gpus: int) -> bool:
        right = self.most.get(branch, 0)
        if branch.node.reclaim == "floor":
            right = min(right, branch.node.floor.get(self.gpu_type, 0))
        return self.use.get(branch, 0) + gpus <= right

    def spare(self, team: str, gpus: int, lender: Branch) -> int:
        """How many GPUs a job of ``team`` and ``gpus`` may take back from a lender in all; 0 where it has no right."""
        own, other = self._ways_to(self._snapshot.quota.leaf(team), lender)
        if not own or not all(self._within(branch, gpus) for branch in own):
            return 0
        if self._below_floor(own[0], gpus):
            lent = self.kept.get(lender, 0) > self.most.get(lender, 0)
            return min(self.kept.get(branch, 0) - self._floor(branch) for branch in other) if lent else 0
        return min(self.kept.get(branch, 0) - self.least.get(branch, 0) for branch in other)

    def may_take(self, asker: Job, victim: Job, so_far: Sequence[Job]) -> bool:
        """Whether the asker stays within its own, and those above the victim keep theirs beside what it takes already;
        of the victims, the asker may stop each by itself.

        A floor is taken back from whoever holds more than its own, down to the other's floor at most: with the last of
        its victims the other may come below its share, since gangs go whole. A share is taken back only where that
        leaves the other its share, so that nothing swings back.
        """
        quota, gpus = self._snapshot.quota, asker.spec.gpus
        own, other = self._ways_to(quota.leaf(asker.spec.team), quota.leaf(victim.spec.team))
        if not all(self._within(branch, gpus) for branch in own):
            return False
        floors = self._below_floor(own[0], gpus)
        if not floors and self._would_swap(asker, victim):
            return False
        for branch in other:
            inside = [one.spec.gpus for one in so_far if branch in quota.leaf(one.spec.team).path]
            inside.append(victim.spec.gpus)
            left = self.kept.get(branch, 0) - sum(inside)
            if floors:
                lent = branch is not other[0] or left + max(inside) > self.most.get(branch, 0)
                spared = left >= self._floor(branch) and lent
            else:
                spared = left >= self.least.get(branch, 0)
            if not spared:
                return False
        return True

    def _would_swap(self, asker: Job, victim: Job) -> bool:
        """Whether the asker was itself stopped for the victim a while ago. Rights by share move with what comes and
        goes: the two would take turns, and lose their work each time."""
        decision = asker.decision
        times = [
            at
            for at, name in zip(reversed(decision.stopped_ms), reversed(decision.stopped_for), strict=False)
            if name == victim.id
        ]
        over = max(times, default=-SWAP_MS) + SWAP_MS
        if over > self._draft.now_ms:
            self._draft.evict_again(over)
        return over > self._draft.now_ms

    def _below_floor(self, team: Branch, gpus: int) -> bool:
        """Whether the team would be within its floor with so many GPUs more."""
        return self.use.get(team, 0) + gpus <= self._floor(team)

    def _floor(self, branch: Branch) -> int:
        """What the branch, or those below it together, are guaranteed."""
        inner = sum(self._floor(child) for child in branch.children)
        return max(branch.node.floor.get(self.gpu_type, 0), inner)

    def _ways_to(self, leaf: Branch, theirs: Branch) -> tuple[list[Branch], list[Branch]]:
        ways = self._ways.get((leaf, theirs))
        if ways is None:
            ways = self._ways[leaf, theirs] = _apart(leaf, theirs)
        return ways

    def rested(self, victim: Job) -> bool:
        """Whether the victim has had its minimum run time; a plan is made again when it will have had it."""
        return self._unprotected_at(victim) <= self._draft.now_ms

    def _unprotected_at(self, victim: Job) -> int:
        """When the victim will have had its minimum run time."""
        leaf = self._snapshot.quota.leaf(victim.spec.team)
        least = self._least_run.get(leaf)
        if least is None:
            least = max([self._draft.policy.min_runtime_ms, *(branch.node.min_runtime_ms for branch in leaf.path)])
            self._least_run[leaf] = least
        if not least:
            return 0
        started = victim.decision.started_ms
        until = (started if started is not None else self._draft.now_ms) + least
        if until > self._draft.now_ms:
            self._draft.evict_again(until)
        return until

    # --- ceilings -----------------------------------------------------------------------------------------------

    def over_ceilings(self, job: Job) -> list[tuple[Branch, int]]:
        """By how many GPUs the job would pass which ceilings above it once the stops under way are done."""
        over = []
        for branch in self._snapshot.quota.leaf(job.spec.team).path:
            ceiling = branch.node.ceiling.get(self.gpu_type)
            if ceiling is not None:
                beyond = self.use.get(branch, 0) + job.spec.gpus - ceiling
                if beyond > 0:
                    over.append((branch, beyond))
        return over


def patient(draft: Draft, job: Job) -> bool:
    """Whether the job has waited for its team's share as long as it should: much comes free by itself."""
    since = max(job.spec.submitted_ms, *job.decision.stopped_ms[-1:], 0)
    until = since + draft.policy.share_patience_ms
    if until > draft.now_ms:
        draft.evict_again(until)
        return False
    return True


def may_be_stopped(victim: Job, policy: Policy, now_ms: int) -> bool:
    """Whether the victim was not stopped too often within a day for the sake of others."""
    if not victim.decision.stopped_ms:
        return True
    return sum(1 for at in victim.decision.stopped_ms if at > now_ms - DAY_MS) < policy.stops_per_day


def _apart(one: Branch, other: Branch) -> tuple[list[Branch], list[Branch]]:
    """The branches from each leaf up to, and without, the lowest one that holds both."""
    both = set(one.path) & set(other.path)
    return [b for b in one.path if b not in both], [b for b in other.path if b not in both]
