"""The dominant reason of every job that goes on waiting, out of a closed list; written only when it changes."""

from __future__ import annotations

from scheduler.core import attempts
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find, zones_for
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node
from scheduler.core.types import Hint, NvLink, Reason
from scheduler.core.waiting import Group, Relaxed, Shape, suits

HOLDS = (Reason.MAINTENANCE, Reason.RESERVED, Reason.HELD_FOR_LARGER_JOB)
"""The reasons that bars give, in the order in which they are blamed."""


_SOFTER = {Hint.REQUIRE_SAME_HOST: Hint.PREFER_SAME_HOST, Hint.REQUIRE_SAME_RACK: Hint.PREFER_SAME_RACK}


def diagnose(snapshot: Snapshot, limits: Limits, job: Job, shape: Shape, now_ms: int) -> Reason:
    """Why the gang finds no place now: the first wish or bar without which it would, from what it cannot help on."""
    if job.id in snapshot.stopping_for:
        return Reason.WAITING_FOR_PREEMPTION
    end = now_ms + remaining_ms(job.spec, job.decision)
    for at in range(len(HOLDS)):
        asker = Asker(job.id, job.spec.team, job.priority, frozenset(HOLDS[: at + 1]))
        if find(snapshot.topology, shape, Sieve(shape, limits, asker, end)) is not None:
            return HOLDS[at]
    return _missing(snapshot, limits, shape, now_ms) or Reason.HELD_FOR_LARGER_JOB


def _missing(snapshot: Snapshot, limits: Limits, shape: Shape, now_ms: int) -> Reason | None:
    """What the gang lacks even if no bar kept it out; None if it would fit then."""
    if not any(zone.free >= shape.gpus for zones in zones_for(snapshot.topology, shape.gpu_type) for zone in zones):
        return Reason.NOT_ENOUGH_FREE_GPUS
    asker = Asker("", "", 0, frozenset(HOLDS))

    def fits(wish: Shape) -> bool:
        return find(snapshot.topology, wish, Sieve(wish, limits, asker, now_ms)) is not None

    if fits(shape):
        return None
    if fits(Relaxed.of(shape, spot=True)):
        return Reason.SPOT_NOT_ALLOWED
    if fits(Relaxed.of(shape, demands=True)):
        return Reason.NOT_ENOUGH_CPU_OR_MEMORY
    if shape.nvlink is NvLink.REQUIRE and fits(Relaxed.of(shape, nvlink=True)):
        return Reason.TOPOLOGY
    softer = _SOFTER.get(shape.hint)
    if softer is not None and fits(Relaxed.of(shape, hint=softer)):
        return Reason.TOPOLOGY
    return _scarce(snapshot, shape)


def _scarce(snapshot: Snapshot, shape: Shape) -> Reason:
    """No single wish is to blame: whether enough GPUs that the job may use are free in some zone."""
    for zones in zones_for(snapshot.topology, shape.gpu_type):
        for zone in zones:
            usable = zone.free
            for rack in zone.racks():
                if rack.by_spot or rack.unlinked:
                    usable -= sum(node.free_gpus for node in rack.nodes if node.open and not _suits(node, shape))
            if usable >= shape.gpus:
                return Reason.FRAGMENTED
    return Reason.NOT_ENOUGH_FREE_GPUS


def _suits(node: Node, shape: Shape) -> bool:
    return node.intent is not None and suits(node.intent, shape)


class Why:
    """Collects during a walk who was passed over, and writes the reasons at its end."""

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._limits = limits
        self._groups: dict[Group, Reason] = {}
        self._passed: dict[Group, None] = {}
        self._by_shape: dict[Shape, Reason | None] = {}

    def note(self, group: Group, reason: Reason) -> None:
        """All of the group waits for this reason."""
        self._groups[group] = reason

    def due(self, group: Group) -> bool:
        """Whether the reasons of the group have to be looked at though nothing in it can start."""
        every = self._draft.policy.reason_every_ms
        return None in group.reasons or self._draft.now_ms >= group.explained_ms + every

    def passed(self, group: Group) -> None:
        """A job of the group found no place."""
        self._passed[group] = None

    def write(self) -> None:
        """Write each reason that differs from the one on record."""
        snapshot = self._draft.snapshot
        for job in snapshot.pick(snapshot.work.arrived & snapshot.parked.keys()):
            assert job.parked is not None
            self._write(job, job.parked)
        for group, reason in self._groups.items():
            for name in list(group.jobs):
                self._write(snapshot.jobs[name], reason)
        for group in self._passed:
            if group not in self._groups:
                self._diagnose(group)

    def _diagnose(self, group: Group) -> None:
        snapshot, now = self._draft.snapshot, self._draft.now_ms
        every = self._draft.policy.reason_every_ms
        scarce = self.scarce(group.shape)
        if scarce is not None and set(group.reasons) == {scarce}:
            group.explained_ms = now
            return
        fresh_only = scarce is None and every > 0 and now < group.explained_ms + every
        if not fresh_only:
            group.explained_ms = now
        elif None not in group.reasons:
            return
        by_limit: dict[int, Reason] = {}
        for name in list(group.jobs):
            job = snapshot.jobs[name]
            if fresh_only and job.decision.reason is not None:
                continue
            if name in snapshot.stopping_for:
                self._write(job, Reason.WAITING_FOR_PREEMPTION)
            elif scarce is not None:
                self._write(job, scarce)
            else:
                left = remaining_ms(job.spec, job.decision)
                reason = by_limit.get(left)
                if reason is None:
                    reason = by_limit[left] = diagnose(snapshot, self._limits, job, group.shape, now)
                self._write(job, reason)

    def scarce(self, shape: Shape) -> Reason | None:
        """The reason that holds for every job of the shape, whatever its limit; None if that counts."""
        if shape not in self._by_shape:
            snapshot = self._draft.snapshot
            self._by_shape[shape] = _missing(snapshot, self._limits, shape, self._draft.now_ms)
        return self._by_shape[shape]

    def _write(self, job: Job, reason: Reason) -> None:
        if job.decision.reason is not reason and job.id not in self._draft.pencilled:
            self._draft.explain(job, reason, attempts.waits(job, reason, self._draft.now_ms))
