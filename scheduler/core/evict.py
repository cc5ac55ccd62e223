"""Steps 4 and 5 of a plan: take back what is one's own, then let the more important take the place of the less.

The asker is placed first, on the snapshot as it will be when its victims are gone; without such a place nobody is
stopped. What they free is held for it, so that they cannot come back first.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core import attempts
from scheduler.core.candidates import Rights, Stoppable
from scheduler.core.claims import Claims, patient
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find, zones_for
from scheduler.core.queue import Walk
from scheduler.core.quota import Branch
from scheduler.core.reserve import Holds
from scheduler.core.settle import ask, give_up
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, Phase, Reservation, StopCause
from scheduler.core.victims import Eviction, Known, MayStop, Question, Search
from scheduler.core.waiting import Group, Relaxed

EVICTIONS_A_PLAN = 8
BELOW_FLOOR_EVERY_MS = 60_000
"""Those below a floor who were refused ask again at least this often, whatever the policy's ``evict_every_ms``."""
MANY_GROUPS, MANY_EVERY_MS = 200, 15_000
"""With more groups than this, those that were refused ask again so often where the policy says nothing."""


class Evictions:
    """The evictions of one plan."""

    def __init__(self, draft: Draft, limits: Limits, holds: Holds) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self._limits = limits
        self._holds = holds
        self._claims: dict[str, Claims] = {}
        self._stoppable = Stoppable(draft)
        self._candidates: dict[Rights, dict[str, Job]] = {}
        self._known: dict[tuple[object, ...], Known] = {}
        self._prices: dict[str, int] = {}
        self._count = 0
        self._coming = _coming(draft.snapshot)

    def run(self) -> None:
        asking = self._asking()
        if not asking:
            return
        causes: dict[Group, list[StopCause]] = {}
        if self._draft.policy.shares:
            causes = {group: [StopCause.RECLAIM] for group in asking if self._may_reclaim(group)}
        if self._draft.policy.preemption:
            for group in self._outranking(asking):
                causes.setdefault(group, []).append(StopCause.PREEMPT)
        self._walk(causes)

    def _asking(self) -> list[Group]:
        """The groups for which rights or room may have changed, but for those that were refused a moment ago."""
        snapshot, now = self._snapshot, self._draft.now_ms
        again = snapshot.evict_again_ms
        if again is not None and again <= now:
            snapshot.evict_again_ms = None
        elif not snapshot.work.gained and not snapshot.work.arrived:
            return []
        groups = snapshot.waiting.groups
        every = self._draft.policy.evict_every_ms or (MANY_EVERY_MS if len(groups) > MANY_GROUPS else 0)
        asking = []
        for group in groups.values():
            due = self._due_ms(group, every)
            if due <= now:
                asking.append(group)
            else:
                self._draft.evict_again(due)
        return asking

    def _due_ms(self, group: Group, every: int) -> int:
        """From when on the group may ask: at once for P0 and where another job is at its head, soon below a floor."""
        if not every or group.priority == 0 or group.asked_for != group.jobs[0]:
            return 0
        if self._snapshot.quota.leaf(group.team).within_floor(group.shape.gpu_type, group.shape.gpus):
            every = min(every, BELOW_FLOOR_EVERY_MS)
        return (group.asked_ms // every + 1) * every  # together with the others: what they look up is the same

    def _may_reclaim(self, group: Group) -> bool:
        gpu_type = group.shape.gpu_type
        if gpu_type == ANY_GPU_TYPE:
            return True
        if not (self._may_be_below_floor(group) or patient(self._draft, self._snapshot.jobs[group.jobs[0]])):
            return False
        return self._rights(gpu_type).could_reclaim(group)

    def _may_be_below_floor(self, group: Group) -> bool:
        """A quick no: what of its own is being stopped does not count; what is promised to it is left open."""
        gpu_type = group.shape.gpu_type
        leaf = self._snapshot.quota.leaf(group.team)
        return leaf.within_floor(gpu_type, group.shape.gpus - self._coming.get((leaf, gpu_type), 0))

    def _outranking(self, groups: list[Group]) -> list[Group]:
        """Those whose class may take the place of something that runs."""
        if all(group.priority > 0 for group in groups) and not self._snapshot.holding:
            return []
        return [group for group in groups if group.priority == 0 or self._has_below(group)]

    def _has_below(self, group: Group) -> bool:
        """Whether a job of the group's team and of a lower class holds GPUs."""
        held = self._snapshot.quota.leaf(group.team).by_class
        return any(gpus and priority > group.priority for priority, gpus in held.items())

    def _walk(self, causes: dict[Group, list[StopCause]]) -> None:
        """Go through these groups in queue order; one whose head can evict nobody is passed over whole.

        Each asks for what is its own before it asks by its class. Both in one walk: whoever could take a place away
        again that was made here has asked before. What a plan spends on it is bounded: after so many evictions the rest
        is for the next plan.
        """
        walk = Walk(self._snapshot, self._draft.policy, causes)
        while (head := walk.head()) is not None:
            group, name = head
            job = self._snapshot.jobs[name]
            if name in self._draft.pencilled or self._is_served(name) or self._could_start_wider(group, job):
                walk.passed()
            elif any(self._evict_for(cause, group, job) for cause in causes[group]):
                walk.promised(group.shape.gpu_type, job.spec.gpus)
                self._count += 1
                if self._count >= EVICTIONS_A_PLAN:
                    self._draft.evict_again(self._draft.now_ms + 1)
                    return
            else:
                group.asked_for, group.asked_ms = name, self._draft.now_ms
                walk.dropped()

    def _could_start_wider(self, group: Group, job: Job) -> bool:
        """Whether the job only waits for a tighter domain: nobody is stopped for that."""
        if not group.shape.patient:
            return False
        wider = Relaxed.of(group.shape, hint=job.spec.hint, avoid=group.shape.avoid)
        end = self._draft.now_ms + remaining_ms(job.spec, job.decision)
        sieve = Sieve(wider, self._limits, Asker(job.id, job.spec.team, job.priority), end)
        return find(self._snapshot.topology, wider, sieve) is not None

    def _is_served(self, name: str) -> bool:
        """Whether the job only waits for stops under way."""
        held = self._holds.of(name)
        return held is not None and held.firm and self._holds.awaits_stops(held)

    def _rights(self, gpu_type: str) -> Claims:
        claims = self._claims.get(gpu_type)
        if claims is None:
            claims = self._claims[gpu_type] = Claims(self._draft, gpu_type, self._holds.all())
        return claims

    def _evict_for(self, cause: StopCause, group: Group, job: Job) -> bool:
        shape = group.shape
        best: tuple[Eviction, list[Job]] | None = None
        for zones in zones_for(self._snapshot.topology, shape.gpu_type):
            claims = self._rights(zones[0].gpu_type)
            if cause is StopCause.RECLAIM and not claims.may_reclaim(job):
                continue
            found = self._search(cause, claims, group, job)
            if found is not None and (best is None or found[0].cost < best[0].cost):
                best = found
        if best is None:
            return False
        self._carry_out(cause, job, *best)
        return True

    def _search(self, cause: StopCause, claims: Claims, group: Group, job: Job) -> tuple[Eviction, list[Job]] | None:
        rights = self._stoppable.rights(claims, cause, group)
        if rights is None:
            return None
        candidates = self._candidates.get(rights)
        if candidates is None:
            candidates = self._candidates[rights] = self._stoppable.candidates(rights, claims)

        def may_stop(victim: Job, so_far: Sequence[Job]) -> bool:
            return cause is not StopCause.RECLAIM or claims.may_take(job, victim, so_far)

        forced = self._below_ceilings(claims, job, candidates, may_stop)
        if forced is None:
            return None
        now = self._draft.now_ms
        asker = Asker(job.id, job.spec.team, job.priority, over_plans=True)
        end = now + remaining_ms(job.spec, job.decision)
        question = Question(asker, group.shape, end, now, tuple(forced))
        known = Known(self._prices) if forced else self._known_for(rights, group, end)
        search = Search(self._snapshot, self._limits, question, candidates, may_stop, known)
        found = search.best(self._snapshot.topology.by_type[claims.gpu_type])
        if found is None or not self._helps(found, forced):
            return None
        return found, forced

    def _known_for(self, rights: Rights, group: Group, end_ms: int) -> Known:
        """What is known of the nodes for askers of this team and class with the same rights; where something is closed
        at a set time, only for those that end at the same time."""
        shape = group.shape
        needs = shape.spot, shape.nvlink, shape.cpu, shape.memory, shape.scratch
        key = rights, group.team, group.priority, needs, end_ms if self._limits.timed else 0
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Known(self._prices)
        return known

    def _helps(self, found: Eviction, forced: list[Job]) -> bool:
        """Whether stopping somebody, or waiting for stops under way, is what lets the asker in."""
        if found.victims or forced:
            return True
        return any(self._snapshot.jobs[name].phase is Phase.STOPPING for node, _ in found.parts for name in node.jobs)

    def _below_ceilings(
        self, claims: Claims, job: Job, candidates: dict[str, Job], may_stop: MayStop
    ) -> list[Job] | None:
        """The cheapest victims whose going brings the job below the ceilings that it would pass; None if none do."""
        forced: list[Job] = []
        over = claims.over_ceilings(job)
        for branch, beyond in over:
            beyond -= sum(victim.spec.gpus for victim in forced if branch in self._path(victim))
            if beyond <= 0:
                continue
            inside = [victim for victim in candidates.values() if branch in self._path(victim)]
            inside.sort(key=lambda victim: (victim.spec.gpus > beyond, -victim.spec.gpus, victim.id))
            for victim in inside:
                if beyond > 0 and victim not in forced and may_stop(victim, forced):
                    forced.append(victim)
                    beyond -= victim.spec.gpus
            if beyond > 0:
                return None
        return self._needed(forced, over)

    def _needed(self, forced: list[Job], over: list[tuple[Branch, int]]) -> list[Job]:
        """Those without whom the others would not do: a larger one that came in last may stand for smaller ones."""
        for victim in list(forced):
            others = [one for one in forced if one is not victim]
            below = ((sum(one.spec.gpus for one in others if branch in self._path(one)), by) for branch, by in over)
            if all(gpus >= by for gpus, by in below):
                forced = others
        return forced

    def _path(self, job: Job) -> tuple[Branch, ...]:
        return self._snapshot.quota.leaf(job.spec.team).path

    def _carry_out(self, cause: StopCause, job: Job, found: Eviction, forced: list[Job]) -> None:
        claims = self._rights(found.gpu_type)
        now = self._draft.now_ms
        free_at = now
        self._forget(found, forced)
        for victim in [*forced, *found.victims]:
            claims.take(victim)
            if victim.phase is Phase.STARTING:
                give_up(self._draft, victim, cause, job.id)
            else:
                ask(self._draft, victim, cause, job.id)
                free_at = max(free_at, planned_end_ms(victim.spec, victim.decision))
        claims.give(job)
        nodes = {node.name for node, _ in found.parts}
        for node, _ in found.parts:
            for name in list(node.jobs):
                other = self._snapshot.jobs[name]
                if other.phase is Phase.STOPPING:
                    free_at = max(free_at, planned_end_ms(other.spec, other.decision))
                    self._redirect(cause, other, job, nodes)
        self._holds.give_way(job.id, nodes)
        self._holds.put(
            Reservation(
                nodes=tuple(node.name for node, _ in found.parts),
                start_ms=free_at,
                job=job.id,
                gpus=job.spec.gpus,
                gpu_type=found.gpu_type,
                takes=tuple(gpus for _, gpus in found.parts),
                firm=True,
            )
        )

    def _forget(self, found: Eviction, forced: list[Job]) -> None:
        """What was known of the victims and of the racks that they and the asker are on is known no more."""
        racks = {node.rack for node, _ in found.parts}
        for victim in (*forced, *found.victims):
            racks |= {self._snapshot.node(part.node).rack for part in victim.held}
            for candidates in self._candidates.values():
                candidates.pop(victim.id, None)
        for known in self._known.values():
            for rack in racks:
                if rack is not None:
                    known.rooms.pop(rack, None)

    def _redirect(self, cause: StopCause, stopping: Job, job: Job, nodes: set[str]) -> None:
        """What a stop under way frees goes to a more important job than it was asked for, which has to ask anew."""
        stop = stopping.decision.stop
        assert stop is not None
        loser = self._snapshot.jobs.get(stop.for_job) if stop.for_job is not None else None
        if loser is None or not Asker(job.id, job.spec.team, job.priority).outranks(loser.spec.team, loser.priority):
            return
        held = self._holds.of(loser.id)
        if held is not None and held.firm and nodes.isdisjoint(held.nodes):
            return
        self._holds.drop(loser.id)
        self._draft.evict_again(self._draft.now_ms + 1)
        why = stop.cause if loser.spec.team == job.spec.team else cause
        self._draft.decide(stopping, *attempts.redirected(stopping, why, job.id, self._draft.now_ms))


def _coming(snapshot: Snapshot) -> dict[tuple[Branch | None, str], int]:
    """GPUs that stops under way will free, by team and type."""
    coming: dict[tuple[Branch | None, str], int] = {}
    for name in snapshot.stopping:
        job = snapshot.jobs[name]
        key = job.leaf, job.decision.gpu_type
        coming[key] = coming.get(key, 0) + job.spec.gpus
    return coming
