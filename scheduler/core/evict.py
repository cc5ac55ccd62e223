"""Steps 4 and 5 of a plan: take back what is one's own, then let the more important take the place of the less.

The asker is placed first, on the snapshot as it will be when its victims are gone; without such a place nobody is
stopped. What they free is held for it, so that they cannot come back first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.core import attempts
from scheduler.core.claims import Claims
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import zones_for
from scheduler.core.queue import Walk
from scheduler.core.quota import Branch
from scheduler.core.reserve import Holds
from scheduler.core.settle import ask, give_up
from scheduler.core.types import Phase, Reservation, StopCause
from scheduler.core.victims import Eviction, Search
from scheduler.core.waiting import Group

MayStop = Callable[[Job, Sequence[Job]], bool]


class Evictions:
    """The evictions of one plan."""

    def __init__(self, draft: Draft, limits: Limits, holds: Holds) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self._limits = limits
        self._holds = holds
        self._claims: dict[str, Claims] = {}

    def run(self) -> None:
        if self._draft.policy.shares:
            self._round(StopCause.RECLAIM)
        if self._draft.policy.preemption:
            self._round(StopCause.PREEMPT)

    def _round(self, cause: StopCause) -> None:
        """Go through the queue once; a group whose head can evict nobody is passed over whole."""
        walk = Walk(self._snapshot, self._draft.policy, self._groups(cause))
        while (head := walk.head()) is not None:
            group, name = head
            job = self._snapshot.jobs[name]
            if name in self._draft.pencilled or name in self._snapshot.stopping_for:
                walk.passed()
            elif self._evict_for(cause, group, job):
                walk.promised(group.shape.gpu_type, job.spec.gpus)
            else:
                walk.dropped()

    def _groups(self, cause: StopCause) -> list[Group]:
        """The groups whose jobs might have a right to somebody's place."""
        groups = list(self._snapshot.waiting.groups.values())
        if cause is StopCause.RECLAIM:
            return groups
        lowest: dict[str, int] = {}
        for job in self._snapshot.holding.values():
            team = job.spec.team
            lowest[team] = max(lowest.get(team, 0), job.priority)
        return [group for group in groups if group.priority == 0 or group.priority < lowest.get(group.team, 0)]

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
        quota = self._snapshot.quota

        def may_stop(victim: Job, so_far: Sequence[Job]) -> bool:
            if victim.id in self._draft.pencilled or self._bound_now(victim):
                return False
            taken: dict[Branch, int] = {}
            for other in so_far:
                for branch in quota.leaf(other.spec.team).path:
                    taken[branch] = taken.get(branch, 0) + other.spec.gpus
            return claims.evictable(cause, job, victim, taken)

        forced = self._below_ceilings(claims, job, may_stop)
        if forced is None:
            return None
        now = self._draft.now_ms
        asker = Asker(job.id, job.spec.team, job.priority, over_plans=True)
        end = now + remaining_ms(job.spec, job.decision)
        search = Search(self._snapshot, self._limits, asker, group.shape, end, now, may_stop, forced)
        found = search.best(self._snapshot.topology.by_type[claims.gpu_type])
        if found is None or not self._helps(found, forced):
            return None
        return found, forced

    def _helps(self, found: Eviction, forced: list[Job]) -> bool:
        """Whether stopping somebody, or waiting for stops under way, is what lets the asker in."""
        if found.victims or forced:
            return True
        return any(self._snapshot.jobs[name].phase is Phase.STOPPING for node, _ in found.parts for name in node.jobs)

    def _bound_now(self, job: Job) -> bool:
        return job.phase is Phase.STARTING and self._draft.decided(job)

    def _below_ceilings(self, claims: Claims, job: Job, may_stop: MayStop) -> list[Job] | None:
        """The cheapest victims whose going brings the job below the ceilings that it would pass; None if none do."""
        forced: list[Job] = []
        for branch, beyond in claims.over_ceilings(job):
            beyond -= sum(victim.spec.gpus for victim in forced if branch in self._path(victim))
            if beyond <= 0:
                continue
            inside = [
                victim
                for victim in self._snapshot.holding.values()
                if victim.phase in (Phase.RUNNING, Phase.STARTING)
                and victim.decision.gpu_type == claims.gpu_type
                and branch in self._path(victim)
            ]
            inside.sort(key=lambda victim: (victim.spec.gpus > beyond, -victim.spec.gpus, victim.id))
            for victim in inside:
                if beyond > 0 and victim not in forced and may_stop(victim, forced):
                    forced.append(victim)
                    beyond -= victim.spec.gpus
            if beyond > 0:
                return None
        return forced

    def _path(self, job: Job) -> tuple[Branch, ...]:
        return self._snapshot.quota.leaf(job.spec.team).path

    def _carry_out(self, cause: StopCause, job: Job, found: Eviction, forced: list[Job]) -> None:
        claims = self._rights(found.gpu_type)
        now = self._draft.now_ms
        free_at = now
        for victim in [*forced, *found.victims]:
            claims.add(victim, -victim.spec.gpus)
            if victim.phase is Phase.STARTING:
                give_up(self._draft, victim, cause, job.id)
            else:
                ask(self._draft, victim, cause, job.id)
                free_at = max(free_at, planned_end_ms(victim.spec, victim.decision))
        claims.add(job, job.spec.gpus)
        for node, _ in found.parts:
            for name in list(node.jobs):
                other = self._snapshot.jobs[name]
                if other.phase is Phase.STOPPING:
                    free_at = max(free_at, planned_end_ms(other.spec, other.decision))
                    self._redirect(cause, other, job)
        self._holds.give_way(job.id, {node.name for node, _ in found.parts})
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

    def _redirect(self, cause: StopCause, stopping: Job, job: Job) -> None:
        """What a stop under way frees goes to a more important job than it was asked for."""
        stop = stopping.decision.stop
        assert stop is not None
        if stop.for_job is None or stop.for_job == job.id:
            return
        loser = stop.for_job
        if self._holds.of(loser) is not None:
            self._holds.drop(loser)
        same = self._snapshot.jobs.get(loser)
        kept = same is not None and same.spec.team == job.spec.team
        why = stop.cause if kept else cause
        self._draft.decide(stopping, *attempts.redirected(stopping, why, job.id, self._draft.now_ms))
