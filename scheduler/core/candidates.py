"""Whom an asker might stop, each by itself: looked up by team, since most of what speaks against a stop is the same for
all who ask, and the rest the same for all victims of one team."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.core.claims import Claims, may_be_stopped
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.quota import Branch
from scheduler.core.types import Phase, StopCause
from scheduler.core.waiting import Group

ACTIVE = frozenset({Phase.STARTING, Phase.RUNNING})


@dataclass(frozen=True, slots=True)
class Rights:
    """Of which teams a group may stop jobs, with the GPUs that may be taken of each in all, and above which priority.

    Groups with the same rights have the same candidates.
    """

    cause: StopCause
    gpu_type: str
    above: int
    teams: tuple[tuple[Branch, int], ...]


class Stoppable:
    """The gangs of one plan that may be stopped at all, by GPU type and team."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._running: dict[tuple[str, Branch], list[Job]] = {}
        self._rested: dict[tuple[str, Branch], list[Job]] = {}

    def rights(self, claims: Claims, cause: StopCause, group: Group) -> Rights | None:
        """What the group may do; None where that would not make room even with all of it: a quick no."""
        reclaim = cause is StopCause.RECLAIM
        # Of P0 nothing is reclaimed but by P0: it would be back at once, in the place of a lesser one.
        above = (0 if group.priority > 0 else -1) if reclaim else group.priority
        teams = tuple(self._lenders(claims, group) if reclaim else self._outranked(claims, group))
        most = claims.free + claims.stopping + sum(gpus for _, gpus in teams)
        return Rights(cause, claims.gpu_type, above, teams) if most >= group.shape.gpus else None

    def candidates(self, rights: Rights, claims: Claims) -> dict[str, Job]:
        """Those whom a group with these rights may stop one by one."""
        look = self._those_rested if rights.cause is StopCause.RECLAIM else self._those_running
        found: dict[str, Job] = {}
        for leaf, most in rights.teams:
            for victim in look(claims, leaf):
                stands = victim.decision.phase in ACTIVE  # it may have been stopped in this plan already
                if stands and victim.priority > rights.above and victim.spec.gpus <= most:
                    found[victim.id] = victim
        return found

    def _lenders(self, claims: Claims, group: Group) -> Iterator[tuple[Branch, int]]:
        for leaf in self._teams(claims.gpu_type):
            if leaf in claims.lenders:
                spare = claims.spare(group.team, group.shape.gpus, leaf)
                if spare > 0:
                    yield leaf, spare

    def _outranked(self, claims: Claims, group: Group) -> Iterator[tuple[Branch, int]]:
        """P0 may take the place of lower classes anywhere, others within their team."""
        for leaf in self._teams(claims.gpu_type):
            if group.priority == 0 or leaf.name == group.team:
                yield leaf, leaf.held.get(claims.gpu_type, 0)

    def _teams(self, gpu_type: str) -> Iterator[Branch]:
        return iter(self._draft.snapshot.ledger.running.get(gpu_type, ()))

    def _those_running(self, claims: Claims, leaf: Branch) -> list[Job]:
        """Those of a team that hold GPUs since an earlier plan, are not being stopped, and were not too often."""
        key = claims.gpu_type, leaf
        known = self._running.get(key)
        if known is None:
            running = self._draft.snapshot.ledger.running[claims.gpu_type][leaf].values()
            known = self._running[key] = [victim for victim in running if self._may_be_stopped(victim)]
        return known

    def _may_be_stopped(self, victim: Job) -> bool:
        draft, phase = self._draft, victim.decision.phase
        if (
            phase is Phase.STOPPING
            or victim.id in draft.pencilled
            or (phase is Phase.STARTING and draft.decided(victim))
        ):
            return False
        return may_be_stopped(victim, draft.policy, draft.now_ms)

    def _those_rested(self, claims: Claims, leaf: Branch) -> list[Job]:
        """Those of them that have had their minimum run time."""
        key = claims.gpu_type, leaf
        known = self._rested.get(key)
        if known is None:
            running = self._those_running(claims, leaf)
            known = self._rested[key] = [victim for victim in running if claims.rested(victim)]
        return known
