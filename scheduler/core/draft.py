"""A plan in the making: decisions tried out on the snapshot, in order, and taken back at the end.

Each step of a plan sees the snapshot as the steps before it left it, so that two decisions never count the same GPU.
A job is decided on at most once a plan, so that the changes can be committed in the order in which they were made: a
gang that was released in a plan is bound again in the next one at the earliest (see ``pencil``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.core.job import NEW, Job
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    HOLDING,
    Change,
    Event,
    JobChange,
    JobDecision,
    NodeChange,
    NodeDecision,
    Plan,
    Policy,
    Reason,
    Reservation,
    Reservations,
    ReservationsChange,
)
from scheduler.core.work import Decision

_FRESH = {reason: replace(NEW, reason=reason) for reason in Reason}


def _for_reason(decision: JobDecision, reason: Reason) -> JobDecision:
    """The decision with another reason. Jobs about which nothing else was decided yet share one record a reason."""
    if decision is NEW or (decision.reason is not None and decision is _FRESH[decision.reason]):
        return _FRESH[reason]
    return replace(decision, reason=reason)


class Draft:
    """The decisions so far. ``released`` are the jobs whose GPUs this plan freed, ``pencilled`` those among them that
    were given a place for the next plan."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now_ms: int, fence: int) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.now_ms = now_ms
        self.fence = fence
        self.released: set[str] = set()
        self.pencilled: set[str] = set()
        self.late: set[str] = set()
        self.booked: list[Reservation] = []
        self.booked_events: list[Event] = []
        self.giving = True
        self.wakes: list[int] = []
        self._undo: list[tuple[Job, JobDecision]] = []
        self._undo_nodes: list[tuple[str, NodeDecision | None]] = []
        self._undo_reservations: Reservations | None = None
        self._jobs: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._changes: list[Change | None] = []

    # --- deciding -----------------------------------------------------------------------------------------------

    def decide(self, job: Job, decision: JobDecision, events: Iterable[Event], nodes: tuple[str, ...] = ()) -> None:
        """Put ``decision`` in force for the rest of the plan, and in the plan."""
        change = JobChange(job.id, decision, tuple(events), nodes)
        at = self._jobs.get(job.id)
        if at is not None:
            earlier = self._changes[at]
            assert isinstance(earlier, JobChange)
            change = replace(change, events=earlier.events + change.events, nodes=earlier.nodes + nodes)
        if job.id in self.released:
            assert decision.phase not in HOLDING, f"{job.id} freed and bound in one plan"
            assert at is not None
            self._changes[at] = change
        else:
            if at is not None:
                self._changes[at] = None
            self._jobs[job.id] = len(self._changes)
            self._changes.append(change)
        self._apply(job, decision)

    def pencil(self, job: Job, decision: JobDecision) -> None:
        """Hold a place for a job that this plan released: nobody else gets it now, the next plan may bind it there."""
        self._apply(job, decision)
        self.pencilled.add(job.id)

    def _apply(self, job: Job, decision: JobDecision) -> None:
        self._undo.append((job, job.decision))
        freed = self.snapshot.move(job, decision)
        if freed is not None:
            self.released.add(job.id)
            (self.snapshot.work.gained if self.giving else self.late).add(freed)

    def explain(self, job: Job, reason: Reason, event: Event) -> None:
        """Note why a job waits: its only change in this plan, or part of the one that there is."""
        self.decide(job, _for_reason(job.decision, reason), (event,))

    def decide_node(self, name: str, decision: NodeDecision, events: Iterable[Event]) -> None:
        node = self.snapshot.node(name)
        self._undo_nodes.append((name, node.decision))
        change = NodeChange(name, decision, tuple(events))
        at = self._nodes.get(name)
        if at is None:
            self._nodes[name] = len(self._changes)
            self._changes.append(change)
        else:
            earlier = self._changes[at]
            assert isinstance(earlier, NodeChange)
            self._changes[at] = replace(change, events=earlier.events + change.events)
        self.snapshot.set_node_decision(name, decision)

    def book(self, held: Reservation, event: Event) -> None:
        """Hold a place for a gang that is on its way out of another: the holds of this plan will have it in them."""
        self.booked.append(held)
        self.booked_events.append(event)
        self.snapshot.quiet_until_ms = self.now_ms

    def reserve(self, reservations: Reservations, events: Iterable[Event]) -> None:
        """Put these holds in force in place of all earlier ones. At most once a plan."""
        assert self._undo_reservations is None, "holds are written once a plan"
        self._undo_reservations = self.snapshot.reservations
        self.snapshot.reservations = reservations
        self._changes.append(ReservationsChange(reservations, tuple(events)))

    def decided(self, job: Job) -> bool:
        """Whether this plan already holds a change of the job."""
        return job.id in self._jobs

    def wake(self, at_ms: int | None) -> None:
        """Have a plan made at ``at_ms`` even if nothing changes until then."""
        if at_ms is not None:
            self.wakes.append(at_ms)

    def evict_again(self, at_ms: int) -> None:
        """At ``at_ms`` a job that is protected now may be stopped for others: ask again then."""
        self.wake(at_ms)
        again = self.snapshot.evict_again_ms
        self.snapshot.evict_again_ms = at_ms if again is None else min(again, at_ms)

    # --- trying -------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A point to come back to with ``forget``."""
        return len(self._undo)

    def assume(self, job: Job, decision: JobDecision) -> None:
        """Try a decision out: it has to be forgotten again."""
        self._undo.append((job, job.decision))
        self.snapshot.move(job, decision)

    def forget(self, mark: int) -> None:
        """Take back everything assumed since ``mark``."""
        while len(self._undo) > mark:
            job, before = self._undo.pop()
            self.snapshot.take_back(job, before)

    # --- closing ------------------------------------------------------------------------------------------------

    def close(self) -> Plan:
        """Take every decision back from the snapshot and answer the plan."""
        self.forget(0)
        for name, decision in reversed(self._undo_nodes):
            self.snapshot.set_node_decision(name, decision)
        if self._undo_reservations is not None:
            self.snapshot.reservations = self._undo_reservations
        if self.pencilled:
            self.wake(self.now_ms)
        changes = tuple(change for change in self._changes if change is not None)
        return Plan(changes, min(self.wakes) if self.wakes else None)

    def expected(self) -> list[Decision]:
        """The records that the plan's commit will bring back."""
        return [
            change.reservations if isinstance(change, ReservationsChange) else change.decision
            for change in self._changes
            if change is not None
        ]
