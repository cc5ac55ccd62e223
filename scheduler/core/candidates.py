"""Whom an asker might stop, each by itself: looked up by team, since most of what speaks against a stop is the same for
all who ask, and the rest the same for all victims of one team."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.claims import Claims, may_be_stopped
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.quota import Branch
from scheduler.core.types import HOLDING, Phase, StopCause
from scheduler.core.waiting import Group


class Stoppable:
    """The gangs of one plan that may be stopped at all, by GPU type and team."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._running: dict[str, dict[Branch, list[Job]]] = {}
        self._rested: dict[tuple[str, Branch], list[Job]] = {}

    def by_leaf(self, gpu_type: str) -> dict[Branch, list[Job]]:
        """Those that hold GPUs since an earlier plan, are not being stopped, and were not stopped too often."""
        if not self._running:
            self._gather()
        return self._running.get(gpu_type, {})

    def _gather(self) -> None:
        draft = self._draft
        for victim in draft.snapshot.holding.values():
            decision = victim.decision
            phase = decision.phase
            if phase is Phase.STOPPING or phase not in HOLDING or victim.id in draft.pencilled:
                continue
            if phase is Phase.STARTING and draft.decided(victim):
                continue
            if may_be_stopped(victim, draft.policy, draft.now_ms):
                assert victim.leaf is not None
                by_leaf = self._running.setdefault(decision.gpu_type, {})
                by_leaf.setdefault(victim.leaf, []).append(victim)

    def rested(self, claims: Claims, leaf: Branch) -> list[Job]:
        """Those of a team that have had their minimum run time."""
        key = claims.gpu_type, leaf
        known = self._rested.get(key)
        if known is None:
            running = self.by_leaf(claims.gpu_type).get(leaf, ())
            known = self._rested[key] = [victim for victim in running if claims.rested(victim)]
        return known


def candidates(stoppable: Stoppable, claims: Claims, cause: StopCause, group: Group) -> dict[str, Job] | None:
    """The jobs that the jobs of ``group`` may stop for ``cause``, one by one; None if they would not make room even
    together: a quick no."""
    found: dict[str, Job] = {}
    most = 0
    by_team = _reclaimable if cause is StopCause.RECLAIM else _outranked
    for victims, spare in by_team(stoppable, claims, group):
        found.update((victim.id, victim) for victim in victims)
        gpus = sum(victim.spec.gpus for victim in victims)
        most += gpus if spare is None else min(gpus, spare)
    return found if claims.free + claims.stopping + most >= group.shape.gpus else None


def _reclaimable(stoppable: Stoppable, claims: Claims, group: Group) -> Iterator[tuple[list[Job], int | None]]:
    """By team that holds more than its own: the victims, and how many GPUs of them may be taken in all."""
    for leaf in stoppable.by_leaf(claims.gpu_type):
        if leaf not in claims.lenders:
            continue
        spare = claims.spare(group.team, group.shape.gpus, leaf)
        if spare > 0:
            spared = 0 if group.priority > 0 else -1  # a P0 job would be back at once, in the place of a lesser one
            rested = stoppable.rested(claims, leaf)
            yield [victim for victim in rested if victim.spec.gpus <= spare and victim.priority > spared], spare


def _outranked(stoppable: Stoppable, claims: Claims, group: Group) -> Iterator[tuple[list[Job], int | None]]:
    """By team: the victims of a lower class; P0 may take them anywhere, others within their team."""
    for leaf, running in stoppable.by_leaf(claims.gpu_type).items():
        if group.priority == 0 or leaf.name == group.team:
            yield [victim for victim in running if victim.priority > group.priority], None
