"""The dominant reason of every job that goes on waiting, out of a closed list; written only when it changes."""

from __future__ import annotations

from scheduler.core import attempts
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find, zones_for
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Hint, Reason
from scheduler.core.waiting import Group, Shape

HOLDS = (Reason.MAINTENANCE, Reason.RESERVED, Reason.HELD_FOR_LARGER_JOB)
"""The reasons that bars give, in the order in which they are blamed."""


class Relaxed:
    """A shape with one of its wishes taken back."""

    @staticmethod
    def of(shape: Shape, *, spot: bool = False, demands: bool = False, hint: Hint | None = None) -> Shape:
        twin = object.__new__(Shape)
        twin.gpus, twin.gpu_type = shape.gpus, shape.gpu_type
        twin.hint = shape.hint if hint is None else hint
        twin.cpu, twin.memory, twin.scratch = (0, 0, 0) if demands else (shape.cpu, shape.memory, shape.scratch)
        twin.spot = frozenset({"aws", "gcp", "azure"}) if spot else shape.spot
        twin.avoid = ()
        twin.plain = False
        return twin


_SOFTER = {Hint.REQUIRE_SAME_HOST: Hint.PREFER_SAME_HOST, Hint.REQUIRE_SAME_RACK: Hint.PREFER_SAME_RACK}


def diagnose(snapshot: Snapshot, limits: Limits, job: Job, shape: Shape, now_ms: int) -> Reason:
    """Why the gang finds no place now: the first wish or bar without which it would, from what it cannot help on."""
    if job.id in snapshot.stopping_for:
        return Reason.WAITING_FOR_PREEMPTION
    if not any(zone.free >= shape.gpus for zones in zones_for(snapshot.topology, shape.gpu_type) for zone in zones):
        return Reason.NOT_ENOUGH_FREE_GPUS
    end = now_ms + remaining_ms(job.spec, job.decision)
    every = frozenset(HOLDS)

    def fits(wish: Shape, ignore: frozenset[Reason]) -> bool:
        asker = Asker(job.id, job.spec.team, job.priority, ignore)
        return find(snapshot.topology, wish, Sieve(wish, limits, asker, end)) is not None

    for at in range(len(HOLDS)):
        if fits(shape, frozenset(HOLDS[: at + 1])):
            return HOLDS[at]
    if fits(Relaxed.of(shape, spot=True), every):
        return Reason.SPOT_NOT_ALLOWED
    if fits(Relaxed.of(shape, demands=True), every):
        return Reason.NOT_ENOUGH_CPU_OR_MEMORY
    softer = _SOFTER.get(shape.hint)
    if softer is not None and fits(Relaxed.of(shape, hint=softer), every):
        return Reason.TOPOLOGY
    return _scarce(snapshot, shape)


def _scarce(snapshot: Snapshot, shape: Shape) -> Reason:
    """No single wish is to blame: whether enough GPUs that the job may use are free in some zone."""
    for zones in zones_for(snapshot.topology, shape.gpu_type):
        for zone in zones:
            usable = zone.free
            for rack in zone.racks():
                for provider, mask in rack.by_spot.items():
                    if provider not in shape.spot:
                        usable -= sum(node.free_gpus for node in rack.nodes if node.open and node.bit & mask)
            if usable >= shape.gpus:
                return Reason.TOPOLOGY if shape.hint in _SOFTER else Reason.FRAGMENTED
    return Reason.NOT_ENOUGH_FREE_GPUS


class Why:
    """Collects during a walk who was passed over, and writes the reasons at its end."""

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._limits = limits
        self._groups: dict[Group, Reason] = {}
        self._passed: dict[Group, list[str]] = {}

    def note(self, group: Group, reason: Reason) -> None:
        """All of the group waits for this reason."""
        self._groups[group] = reason

    def passed(self, group: Group, job: Job) -> None:
        """The job found no place."""
        self._passed.setdefault(group, []).append(job.id)

    def write(self) -> None:
        """Write each reason that differs from the one on record."""
        snapshot = self._draft.snapshot
        for job in snapshot.pick(snapshot.parked):
            assert job.parked is not None
            self._write(job, job.parked)
        for group, reason in self._groups.items():
            for name in list(group.jobs):
                self._write(snapshot.jobs[name], reason)
        for group in self._passed:
            if group not in self._groups:
                self._diagnose(group)

    def _diagnose(self, group: Group) -> None:
        snapshot = self._draft.snapshot
        by_limit: dict[int, Reason] = {}
        for name in list(group.jobs):
            job = snapshot.jobs[name]
            left = remaining_ms(job.spec, job.decision)
            if name in snapshot.stopping_for:
                self._write(job, Reason.WAITING_FOR_PREEMPTION)
                continue
            reason = by_limit.get(left)
            if reason is None:
                reason = by_limit[left] = diagnose(snapshot, self._limits, job, group.shape, self._draft.now_ms)
            self._write(job, reason)

    def _write(self, job: Job, reason: Reason) -> None:
        if job.decision.reason is not reason and job.id not in self._draft.pencilled:
            self._draft.explain(job, reason, attempts.waits(job, reason, self._draft.now_ms))
