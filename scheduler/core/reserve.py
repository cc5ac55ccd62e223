"""Planned starts: the blocked gangs that come first are promised named nodes from a moment on, and nothing that is let
through behind them may still be there then.

A promise is never moved to a later start while its nodes live, except for a job of a higher class. It moves to an
earlier one when GPUs come free before their plan. A job of one GPU and no other demand needs none: nobody who is
smaller can pass it.
"""

from __future__ import annotations

from scheduler.core.draft import Draft
from scheduler.core.horizon import Horizon
from scheduler.core.job import Job
from scheduler.core.lifecycle import remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.types import Event, EventKind, Reservation, Reservations
from scheduler.core.waiting import Group, Shape
from scheduler.core.work import ALL


class Holds:
    """The reservations of one plan, by job; those of teams are carried along."""

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self._limits = limits
        self._horizon = Horizon(draft.snapshot, limits, draft.now_ms)
        held = draft.snapshot.reservations.held
        self._before = {one.job: one for one in held if one.job is not None}
        self._of = dict(self._before)
        self._others = [one for one in held if one.job is None]
        self._largest_node = max(
            (size for zone in draft.snapshot.topology.zones.values() for size in zone.pools), default=1
        )

    def of(self, job: str) -> Reservation | None:
        return self._of.get(job)

    def all(self) -> list[Reservation]:
        return list(self._of.values())

    def changed(self) -> None:
        """GPUs were given away since the horizon was looked at."""
        self._horizon.changed()

    def room(self) -> bool:
        """Whether another job could be promised a start."""
        gangs, hosts = self._counts()
        policy = self._draft.policy
        return gangs < policy.gang_reservations or hosts < policy.host_reservations

    def room_for(self, shape: Shape) -> bool:
        """Whether a job of this shape could be promised a start."""
        if shape.gpus == 1 and not (shape.cpu or shape.memory or shape.scratch):
            return False
        gangs, hosts = self._counts()
        if shape.gpus > self._largest_node:
            return gangs < self._draft.policy.gang_reservations
        return hosts < self._draft.policy.host_reservations

    def _counts(self) -> tuple[int, int]:
        gangs = sum(1 for held in self._of.values() if held.gpus > self._largest_node)
        return gangs, len(self._of) - gangs

    def refresh(self) -> None:
        """Drop the holds of jobs that do not wait any more, renew the broken ones, and move up those that can."""
        gained = self._snapshot.work.gained
        for name, held in list(self._of.items()):
            job = self._snapshot.jobs.get(name)
            if job is None or job.group is None:
                self.drop(name)
            elif not self._whole(held):
                self.drop(name)
                self._renew(job)
            elif name in self._snapshot.stopping_for:
                continue
            elif held.start_ms > self._draft.now_ms and (ALL in gained or held.gpu_type in gained):
                self._improve(job, held)

    def _whole(self, held: Reservation) -> bool:
        """Whether every node of the hold still is there for it."""
        for name, takes in zip(held.nodes, held.takes, strict=True):
            node = self._snapshot.nodes.get(name)
            if node is None or not node.open or (node.all_mask & ~node.faulty).bit_count() < takes:
                return False
        return True

    def _start(self, job: Job, allowed: list[str] | None) -> Reservation | None:
        asker = Asker(job.id, job.spec.team, job.priority)
        assert job.shape is not None
        return self._horizon.start(asker, job.shape, remaining_ms(job.spec, job.decision), allowed)

    def _renew(self, job: Job) -> None:
        held = self._start(job, None)
        if held is not None:
            self._put(held)

    def _improve(self, job: Job, held: Reservation) -> None:
        better = self._start(job, None)
        if better is not None and better.start_ms < held.start_ms:
            self.drop(job.id)
            self._put(better)

    def promise(self, group: Group, job: Job, left: int, allowed: list[str]) -> str | None:
        """Plan the job's start if there is room for one more; answers the GPU type that it was promised."""
        policy = self._draft.policy
        if not self.room_for(group.shape):
            return None
        due = job.spec.submitted_ms + policy.reservation_after_ms
        if due > self._draft.now_ms:
            self._draft.wake(due)
            return None
        held = self._start(job, allowed)
        if held is None:
            return None
        self._put(held)
        return held.gpu_type

    def _put(self, held: Reservation) -> None:
        assert held.job is not None
        self._of[held.job] = held
        self._limits.add(held)
        self._horizon.changed()

    def put(self, held: Reservation) -> None:
        """Hold these nodes for a job, in place of what was held for it."""
        assert held.job is not None
        self.drop(held.job)
        self._put(held)

    def drop(self, job: str) -> None:
        held = self._of.pop(job, None)
        if held is not None:
            self._limits.remove(held)
            self._horizon.changed()

    def write(self) -> None:
        """Put what changed among the holds into the plan."""
        events: list[Event] = []
        now = self._draft.now_ms
        for name, held in self._before.items():
            if self._of.get(name) != held:
                events.append(_event(EventKind.UNRESERVE, name, held, now))
        for name, held in self._of.items():
            if self._before.get(name) != held:
                events.append(_event(EventKind.RESERVE, name, held, now))
            if held.start_ms > now:
                self._draft.wake(held.start_ms)
        if events:
            self._draft.reserve(Reservations((*self._others, *self._of.values())), events)


def _event(kind: EventKind, job: str, held: Reservation, now_ms: int) -> Event:
    return Event(kind, now_ms, job, None, 0, {"hosts": list(held.nodes), "start_ms": held.start_ms, "phase": "PENDING"})
