"""Step 6 of a plan, on its own schedule: move what can checkpoint so that a gang fits that breakage alone blocks.

A move has to pay: it never restarts more GPUs than it makes room for, what is moved fits elsewhere at once, and the
time that the gang would wait otherwise is worth more than the restarts. Jobs near their planned end are spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from scheduler.core import attempts, windows
from scheduler.core.claims import may_be_stopped
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.moves import Move, Proposal
from scheduler.core.placement import Placement, Sieve, find, lowest
from scheduler.core.queue import Walk
from scheduler.core.quota import Quota
from scheduler.core.reserve import Holds
from scheduler.core.settle import ask
from scheduler.core.spent import price_ms
from scheduler.core.types import AcceptedRepair, Hint, OnLoss, Phase, Reason, Reservation, StopCause
from scheduler.core.victims import Eviction, Question, Search
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
        self._capped = False
        self._planned: list[Job] = []

    def run(self) -> None:
        """Do what on-call agreed to; where repair is automatic and its time has come, try a move for the head of each
        group that waits for breakage alone."""
        for wish in self._snapshot.repairs.accepted:
            self._do(wish)
        policy, now = self._draft.policy, self._draft.now_ms
        if policy.repair != "auto":
            return
        broken = self._broken()
        if not broken:
            return
        spans = windows.read(policy.repair_windows)
        due = self._snapshot.repaired_ms + policy.repair_every_ms
        if now >= due and not windows.is_open(spans, now):
            due = windows.next_open_ms(spans, now) or due
        if now < due:
            self._draft.wake(due)
            return
        self._snapshot.repaired_ms = now
        self._draft.wake(now + policy.repair_every_ms)
        self._snapshot.moves.look(self._snapshot.jobs.values(), now)
        self._capped = True
        for job, found in self._ways(broken):
            self._carry_out(job, found)
            self._planned += found.victims

    def proposals(self) -> list[Proposal]:
        """What could be moved for the head of each group that waits for breakage alone, in the order of the queue."""
        return [self._proposal(job, found) for job, found in self._ways(self._broken())]

    def _proposal(self, job: Job, found: Eviction) -> Proposal:
        held, now = self._holds.of(job.id), self._draft.now_ms
        moves = [
            Move(one.id, one.spec.team, one.decision.attempt, one.spec.gpus, price_ms(one)) for one in found.victims
        ]
        return Proposal(
            job=job.id,
            team=job.spec.team,
            gpus=job.spec.gpus,
            gpu_type=found.gpu_type,
            nodes=tuple(node.name for node, _ in found.parts),
            takes=tuple(gpus for _, gpus in found.parts),
            moves=tuple(moves),
            gain_ms=None if held is None else job.spec.gpus * max(0, held.start_ms - now),
        )

    def _do(self, wish: AcceptedRepair) -> None:
        """The moves agreed to, if all still is as it was then: it was looked at, so neither windows nor caps matter."""
        snapshot, job = self._snapshot, self._snapshot.jobs.get(wish.job)
        victims = [snapshot.jobs[name] for name, attempt in wish.moved if self._is_still(name, attempt, wish.gpu_type)]
        nodes = [snapshot.nodes[name] for name in wish.nodes if name in snapshot.nodes and snapshot.nodes[name].open]
        if wish.until_ms <= self._draft.now_ms or job is None or job.group is None or not self._may_ask(job):
            return
        if len(victims) < len(wish.moved) or len(nodes) < len(wish.nodes):
            return
        leaf = snapshot.quota.leaf(job.spec.team)
        found = Eviction(victims, list(zip(nodes, wish.takes, strict=True)), 0, wish.gpu_type)
        if Quota.barrier(leaf, wish.gpu_type, job.spec.gpus, job.priority) is None and self._fit_elsewhere(job, found):
            self._carry_out(job, found)

    def _is_still(self, name: str, attempt: int, gpu_type: str) -> bool:
        job = self._snapshot.jobs.get(name)
        return job is not None and job.decision.attempt == attempt and self._movable(job, gpu_type)

    def _broken(self) -> list[Group]:
        groups = self._snapshot.waiting.groups.values()
        return [group for group in groups if self._why.scarce(group.shape) in BROKEN]

    def _ways(self, broken: list[Group]) -> Iterator[tuple[Job, Eviction]]:
        """For the head of each group the cheapest moves that let it start, where there are any."""
        walk = Walk(self._snapshot, self._draft.policy, broken)
        while (head := walk.head()) is not None:
            group, name = head
            job = self._snapshot.jobs[name]
            found = self._way_for(group, job) if self._may_ask(job) else None
            if found is not None:
                yield job, found
            walk.dropped()

    def _may_ask(self, job: Job) -> bool:
        return job.id not in self._draft.pencilled and job.id not in self._snapshot.stopping_for

    def _way_for(self, group: Group, job: Job) -> Eviction | None:
        leaf = self._snapshot.quota.leaf(group.team)
        now = self._draft.now_ms
        asker = Asker(job.id, group.team, group.priority, over_plans=True)
        question = Question(asker, group.shape, now + remaining_ms(job.spec, job.decision), now)
        for gpu_type in self._types(group):
            if Quota.barrier(leaf, gpu_type, group.shape.gpus, group.priority) is not None:
                continue
            movable = {
                other.id: other
                for other in self._snapshot.holding.values()
                if self._movable(other, gpu_type) and not self._would_be_back(other, job)
            }

            def may_stop(victim: Job, so_far: Sequence[Job]) -> bool:
                return victim.spec.gpus + sum(other.spec.gpus for other in so_far) <= group.shape.gpus

            self._trials = TRIALS
            search = Search(self._snapshot, self._limits, question, movable, may_stop, accepts=self._accepts(job))
            found = search.best(self._snapshot.topology.by_type[gpu_type])
            if found is not None:
                return found
        return None

    def _types(self, group: Group) -> list[str]:
        wanted = group.shape.gpu_type
        return [wanted] if wanted in self._snapshot.topology.by_type else list(self._snapshot.topology.by_type)

    def _movable(self, job: Job, gpu_type: str) -> bool:
        """Whether the job loses next to nothing by a stop, and is not about to end anyway."""
        spec, decision, now = job.spec, job.decision, self._draft.now_ms
        return (
            job.phase is Phase.RUNNING
            and spec.movable
            and self._snapshot.why_parked(job) is None
            and decision.gpu_type == gpu_type
            and spec.on_preemption is OnLoss.RESUME
            and spec.checkpoint is not None
            and spec.checkpoint.takes_ms <= self._draft.policy.grace_ms
            and planned_end_ms(spec, decision) > now + NEAR_END_MS
            and may_be_stopped(job, self._draft.policy, now)
        )

    @staticmethod
    def _would_be_back(moved: Job, job: Job) -> bool:
        """Whether the one that is moved may take what it left from the job that it was moved for."""
        return Asker(moved.id, moved.spec.team, moved.priority).outranks(job.spec.team, job.priority)

    def _pays(self, job: Job, found: Eviction) -> bool:
        """Whether the gang would wait so long that the restarts cost less."""
        held = self._holds.of(job.id)
        if held is None:
            return True
        return job.spec.gpus * (held.start_ms - self._draft.now_ms) > sum(map(price_ms, found.victims))

    def _accepts(self, job: Job) -> Callable[[Eviction], bool]:
        def accepts(found: Eviction) -> bool:
            if not found.victims or not self._pays(job, found) or not self._trials:
                return False
            if self._capped and not self._within_caps(found.victims):
                return False
            self._trials -= 1
            return self._fit_elsewhere(job, found)

        return accepts

    def _within_caps(self, victims: list[Job]) -> bool:
        draft = self._draft
        return draft.snapshot.moves.allows([*self._planned, *victims], draft.policy, draft.now_ms)

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
