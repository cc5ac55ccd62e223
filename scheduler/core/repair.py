"""Step 6 of a plan, on its own schedule: move what can checkpoint so that a gang fits that breakage alone blocks.

A move has to pay: it never restarts more GPUs than it makes room for, what is moved fits elsewhere at once, and the
time that the gang would wait otherwise is worth more than the restarts. Jobs near their planned end are spared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.core import attempts
from scheduler.core.claims import may_be_stopped
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Placement, Sieve, find, lowest
from scheduler.core.queue import Walk
from scheduler.core.quota import Quota
from scheduler.core.reserve import Holds
from scheduler.core.settle import ask
from scheduler.core.types import Hint, OnLoss, Phase, Reason, Reservation, StopCause
from scheduler.core.victims import RESTART_MS, Eviction, Question, Search
from scheduler.core.waiting import Group
from scheduler.core.why import Why

BROKEN = frozenset({Reason.FRAGMENTED, Reason.TOPOLOGY})
"""The reasons of those who would find room if what is free lay together."""

TRIALS = 64
"""So many sets of moves are tried out for a gang before it is given up."""

NEAR_END_MS = 600_000
"""A job that is planned to end within this time is not moved."""


class Repair:
    """The moves of one plan."""

    def __init__(self, draft: Draft, limits: Limits, holds: Holds, why: Why) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self._limits = limits
        self._holds = holds
        self._why = why
        self._trials = 0

    def run(self) -> None:
        """Try one move for the head of each group that waits for breakage alone."""
        policy, now = self._draft.policy, self._draft.now_ms
        if not policy.repair:
            return
        groups = self._snapshot.waiting.groups.values()
        broken = [group for group in groups if self._why.scarce(group.shape) in BROKEN]
        if not broken:
            return
        due = self._snapshot.repaired_ms + policy.repair_every_ms
        if now < due:
            self._draft.wake(due)
            return
        self._snapshot.repaired_ms = now
        self._draft.wake(now + policy.repair_every_ms)
        walk = Walk(self._snapshot, policy, broken)
        while (head := walk.head()) is not None:
            group, name = head
            self._repair_for(group, self._snapshot.jobs[name])
            walk.dropped()

    def _repair_for(self, group: Group, job: Job) -> None:
        if job.id in self._draft.pencilled or job.id in self._snapshot.stopping_for:
            return
        leaf = self._snapshot.quota.leaf(group.team)
        now = self._draft.now_ms
        asker = Asker(job.id, group.team, group.priority, over_plans=True)
        question = Question(asker, group.shape, now + remaining_ms(job.spec, job.decision), now)
        for gpu_type in self._types(group):
            if Quota.barrier(leaf, gpu_type, group.shape.gpus, group.priority) is not None:
                continue
            movable = {other.id: other for other in self._snapshot.holding.values() if self._movable(other, gpu_type)}

            def may_stop(victim: Job, so_far: Sequence[Job]) -> bool:
                return victim.spec.gpus + sum(other.spec.gpus for other in so_far) <= group.shape.gpus

            self._trials = TRIALS
            search = Search(self._snapshot, self._limits, question, movable, may_stop, accepts=self._accepts(job))
            found = search.best(self._snapshot.topology.by_type[gpu_type])
            if found is not None:
                self._carry_out(job, found)
                return

    def _types(self, group: Group) -> list[str]:
        wanted = group.shape.gpu_type
        return [wanted] if wanted in self._snapshot.topology.by_type else list(self._snapshot.topology.by_type)

    def _movable(self, job: Job, gpu_type: str) -> bool:
        """Whether the job loses next to nothing by a stop, and is not about to end anyway."""
        spec, decision, now = job.spec, job.decision, self._draft.now_ms
        return (
            job.phase is Phase.RUNNING
            and self._snapshot.why_parked(job) is None
            and decision.gpu_type == gpu_type
            and spec.on_preemption is OnLoss.RESUME
            and spec.checkpoint is not None
            and spec.checkpoint.takes_ms <= self._draft.policy.grace_ms
            and planned_end_ms(spec, decision) > now + NEAR_END_MS
            and may_be_stopped(job, self._draft.policy, now)
        )

    def _pays(self, job: Job, found: Eviction) -> bool:
        """Whether the gang would wait so long that the restarts cost less."""
        held = self._holds.of(job.id)
        if held is None:
            return True
        price = 0
        for victim in found.victims:
            assert victim.spec.checkpoint is not None
            price += victim.spec.gpus * (victim.spec.checkpoint.takes_ms + RESTART_MS)
        return job.spec.gpus * (held.start_ms - self._draft.now_ms) > price

    def _accepts(self, job: Job) -> Callable[[Eviction], bool]:
        def accepts(found: Eviction) -> bool:
            if not found.victims or not self._pays(job, found) or not self._trials:
                return False
            self._trials -= 1
            return self._fit_elsewhere(job, found)

        return accepts

    def _fit_elsewhere(self, job: Job, found: Eviction) -> bool:
        """Try it out: the victims gone, the gang in its place, and every victim has another one."""
        draft = self._draft
        mark = draft.mark()
        held = self._holds.of(job.id)
        self._holds.drop(job.id)
        for victim in found.victims:
            cutting, _ = attempts.cut(victim, StopCause.REPAIR, draft.now_ms)
            gone, _ = attempts.returned(victim, cutting, draft.now_ms)
            draft.assume(victim, gone)
        parts = tuple((node, lowest(node.free_mask, gpus)) for node, gpus in found.parts)
        fits = all(mask.bit_count() == gpus for (_, mask), (_, gpus) in zip(parts, found.parts, strict=True))
        if fits:
            self._assume(job, Placement(found.gpu_type, parts))
            fits = all(map(self._replace, sorted(found.victims, key=_choosiness)))
        draft.forget(mark)
        if held is not None:
            self._holds.put(held)
        return fits

    def _replace(self, victim: Job) -> bool:
        now = self._draft.now_ms
        assert victim.shape is not None
        asker = Asker(victim.id, victim.spec.team, victim.priority)
        end = now + remaining_ms(victim.spec, victim.decision)
        placement = find(self._snapshot.topology, victim.shape, Sieve(victim.shape, self._limits, asker, end))
        if placement is None:
            return False
        self._assume(victim, placement)
        return True

    def _assume(self, job: Job, placement: Placement) -> None:
        draft = self._draft
        decision, _ = attempts.bound(
            job, placement.slices(), placement.gpu_type, draft.policy, draft.fence, draft.now_ms
        )
        draft.assume(job, decision)

    def _carry_out(self, job: Job, found: Eviction) -> None:
        free_at = self._draft.now_ms
        for victim in found.victims:
            ask(self._draft, victim, StopCause.REPAIR, job.id)
            free_at = max(free_at, planned_end_ms(victim.spec, victim.decision))
        nodes = tuple(node.name for node, _ in found.parts)
        self._holds.give_way(job.id, set(nodes))
        self._holds.put(
            Reservation(
                nodes=nodes,
                start_ms=free_at,
                job=job.id,
                gpus=job.spec.gpus,
                gpu_type=found.gpu_type,
                takes=tuple(gpus for _, gpus in found.parts),
                firm=True,
            )
        )


def _choosiness(job: Job) -> tuple[bool, int]:
    """Sorts those first for whom it is hardest to find a place."""
    return job.spec.hint is Hint.ANY, -job.spec.gpus
