"""Previews for the portal: what would become of a job, asked of the real planner beside the picture.

Each process keeps one scratch that follows its picture, so that a question costs about what changed since the last one.
The picture is held still for as long as it takes to gather references to its records, a few milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from threading import Lock

from scheduler.core.alternatives import Alternative, alternatives, rank
from scheduler.core.moves import Proposal
from scheduler.core.preview import Outlook, preview
from scheduler.core.proposals import proposals
from scheduler.core.scratch import Scratch, records
from scheduler.core.types import JobSpec, Policy
from scheduler.picture import Picture

BUDGET_MS = 150
"""No further alternative is tried after so long: the answer is for somebody who types."""
MOST_ALTERNATIVES = 6


@dataclass(frozen=True, slots=True)
class Foresight:
    """The outlook at ``revision`` of the live state, and what to ask for instead, best first."""

    revision: int
    outlook: Outlook
    alternatives: tuple[Alternative, ...]


class Foreseer:
    """Asks for everybody of one process, one question at a time."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._lock = Lock()

    def look(
        self,
        picture: Picture,
        policy: Policy,
        spec: JobSpec,
        now_ms: int,
        *,
        teams: Collection[str] | None,
        priorities: Collection[int],
        ticking_ms: Callable[[], int],
    ) -> Foresight:
        """What would become of ``spec`` if it were submitted now.

        Args:
            teams: those whose jobs the asker may know by name; None: all.
            priorities: the classes that the job's team may submit.
            ticking_ms: a clock for the budget.

        Raises:
            StoreUnavailable: the live state was never loaded.
        """
        with self._lock:
            began = ticking_ms()
            with picture.reading() as seen:
                revision, gathered = picture.revision, records(seen)
            snapshot = self._scratch.follow(gathered)
            try:
                outlook = preview(snapshot, policy, spec, now_ms)
                found = []
                for one in alternatives(snapshot, policy, spec, now_ms, outlook, priorities):
                    found.append(one)
                    if len(found) >= MOST_ALTERNATIVES or ticking_ms() - began > BUDGET_MS:
                        break
            except BaseException:
                # Nobody knows what a plan that broke off has left in it.
                self._scratch = Scratch()
                raise
        shown = tuple(replace(one, outlook=blanked(one.outlook, teams)) for one in rank(found))
        return Foresight(revision, blanked(outlook, teams), shown)

    def moves(self, picture: Picture, policy: Policy, now_ms: int) -> list[Proposal]:
        """What could be moved so that gangs start that wait for breakage alone.

        Raises:
            StoreUnavailable: the live state was never loaded.
        """
        with self._lock:
            with picture.reading() as seen:
                gathered = records(seen)
            snapshot = self._scratch.follow(gathered)
            try:
                return proposals(snapshot, policy, now_ms)
            except BaseException:
                self._scratch = Scratch()
                raise


def blanked(outlook: Outlook, teams: Collection[str] | None) -> Outlook:
    """The outlook for somebody who may know the jobs of these teams by name, and of others their team and size."""
    if teams is None:
        return outlook
    return replace(
        outlook,
        victims=tuple(one if one.team in teams else replace(one, job="") for one in outlook.victims),
        holders=tuple(one if one.team in teams else replace(one, job="") for one in outlook.holders),
    )


_foreseers: dict[int, Foreseer] = {}
_lock = Lock()


def foreseer() -> Foreseer:
    """This process's own."""
    with _lock:
        return _foreseers.setdefault(os.getpid(), Foreseer())
