"""What an agent holds itself bound to: the orders it accepts, and for how long it may go on without new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from nodes.protocol import NOTHING_KNOWN, SyncAnswer
from scheduler.core.types import Action, Assignment

REMEMBERED_JOBS = 4096
"""Jobs that are gone from the node whose last attempt is still remembered, the ones that left longest ago dropped."""


class Refusal(StrEnum):
    """Why an order is not obeyed."""

    OLDER_PICTURE = "older_picture"
    LOWER_FENCE = "lower_fence"
    OLDER_ATTEMPT = "older_attempt"
    ABANDONED = "abandoned"
    NEVER_PREPARED = "never_prepared"


@dataclass(frozen=True, slots=True)
class Refused:
    """``job`` is None where the whole answer was refused."""

    refusal: Refusal
    job: str | None = None


class KeptDuty(msgspec.Struct, frozen=True):
    """A duty as it outlives its agent, but for the time in touch. ``revision`` is the one that the orders came from."""

    known: str = NOTHING_KNOWN
    revision: int = 0
    fence: int = 0
    assignments: tuple[Assignment, ...] = ()
    attempts: dict[str, int] = {}
    abandoned: tuple[tuple[str, int], ...] = ()


class Duty:
    """The orders in force on one node.

    Invariants: the picture that orders came from never gets older; of a job, no attempt follows a later one; no attempt
    begins under a fencing token lower than one obeyed before; an attempt that the node stopped by itself, for being out
    of touch, is never run again; and ranks begin with the order to prepare: where an attempt is told to go on whose
    ranks are not here (they ended with an earlier life of the agent), it is left out of the reports, and so known lost.
    All moments are of the agent's own monotonic clock, in milliseconds.
    """

    def __init__(self) -> None:
        self.known = NOTHING_KNOWN
        self.revision = 0
        self.fence = 0
        self.held_until_ms: int | None = None
        """Until when the control plane certainly counts this node as alive; None before the first renewal."""
        self._told_revision = 0
        """The revision of the picture that the orders came from; later ones confirmed them."""
        self._assignments: tuple[Assignment, ...] = ()
        self._attempts: dict[str, int] = {}
        self._abandoned: set[tuple[str, int]] = set()

    @classmethod
    def restored(cls, kept: KeptDuty, held_until_ms: int | None) -> Duty:
        """The duty that an earlier life of the agent has kept, bound as long as that one was."""
        duty = cls()
        duty.revision = duty._told_revision = kept.revision
        duty.known, duty.fence, duty.held_until_ms = kept.known, kept.fence, held_until_ms
        duty._assignments, duty._attempts = kept.assignments, dict(kept.attempts)
        duty._abandoned = set(kept.abandoned)
        return duty

    def kept(self) -> KeptDuty:
        """What has to outlive this agent."""
        return KeptDuty(
            self.known,
            self._told_revision,
            self.fence,
            self._assignments,
            dict(self._attempts),
            tuple(sorted(self._abandoned)),
        )

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """What should be on the node. The same object until it changes."""
        return self._assignments

    def take(self, answer: SyncAnswer, sent_ms: int) -> list[Refused]:
        """Obey the answer to a request sent at ``sent_ms``; says what in it is refused."""
        if answer.revision < self.revision:
            return [Refused(Refusal.OLDER_PICTURE)]
        self.revision = answer.revision
        if answer.renewed_ms is not None:
            # The request arrived after it was sent, so the lease was renewed no earlier than this.
            until_ms = sent_ms + answer.renewed_ms + answer.lease_ms
            self.held_until_ms = max(self.held_until_ms or until_ms, until_ms)
        if answer.assignments is None:
            return []
        self._told_revision = answer.revision
        return self._obey(answer.hash, answer.assignments)

    def out_of_touch(self, now_ms: int) -> bool:
        """Whether another attempt of what runs here may start elsewhere from now on."""
        return self.held_until_ms is not None and now_ms >= self.held_until_ms

    def abandon(self) -> None:
        """Drop every order: the ranks are to be stopped, and their attempts never to be taken up again."""
        self._abandoned.update((assignment.job, assignment.attempt) for assignment in self._assignments)
        self._assignments = ()
        self.known = NOTHING_KNOWN
        self.held_until_ms = None

    def _obey(self, named: str, assignments: Iterable[Assignment]) -> list[Refused]:
        running = {(held.job, held.attempt): held for held in self._assignments}
        accepted, refused = [], []
        for assignment in assignments:
            refusal = self._refusal(assignment, running)
            if refusal is not None:
                refused.append(Refused(refusal, assignment.job))
                continue
            held = running.get((assignment.job, assignment.attempt))
            accepted.append(held if held == assignment else assignment)
        self._assignments = tuple(accepted)
        # Under its own name even where a part was refused, or it would be told again at once and for ever.
        self.known = named
        self.fence = max([self.fence, *(assignment.fence for assignment in accepted)])
        self._remember(accepted)
        return refused

    def _refusal(self, assignment: Assignment, running: dict[tuple[str, int], Assignment]) -> Refusal | None:
        attempt = (assignment.job, assignment.attempt)
        if attempt in self._abandoned:
            return Refusal.ABANDONED
        if assignment.attempt < self._attempts.get(assignment.job, 0):
            return Refusal.OLDER_ATTEMPT
        if attempt in running:
            return None
        if assignment.fence < self.fence:
            return Refusal.LOWER_FENCE
        return None if assignment.action is Action.PREPARE else Refusal.NEVER_PREPARED

    def _remember(self, accepted: list[Assignment]) -> None:
        for assignment in accepted:
            self._attempts.pop(assignment.job, None)
            self._attempts[assignment.job] = assignment.attempt
        while len(self._attempts) > REMEMBERED_JOBS + len(accepted):
            del self._attempts[next(iter(self._attempts))]
        self._abandoned = {(job, attempt) for job, attempt in self._abandoned if self._attempts.get(job) == attempt}
