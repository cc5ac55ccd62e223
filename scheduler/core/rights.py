"""What a job's team may call its own, level by level, and how safe the job's GPUs would be there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from scheduler.core.entitlement import entitlements
from scheduler.core.quota import Branch
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, JobSpec, Policy


class Band(StrEnum):
    """Where a job's GPUs lie: inside the floor of every level (nobody can reclaim them), of some, or of none."""

    FLOOR = "floor"
    PARTLY = "partly"
    BURST = "burst"


@dataclass(frozen=True, slots=True)
class Level:
    """One node of the quota tree above a job, in GPUs of one type. ``ceiling`` None: there is none.

    ``share`` is what the node may call its own by what everybody wants now, ``least`` if everybody wanted everything.
    """

    name: str
    held: int
    with_job: int
    floor: int
    ceiling: int | None
    share: int
    least: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The levels from the team up. ``band`` says what of the job's path is inside its floors."""

    gpu_type: str
    band: Band
    levels: tuple[Level, ...]


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Exposure:
    """How likely others would take the job's GPUs, with what that is judged by.

    ``over`` is the level that would be furthest beyond its own, and ``beyond`` by how many GPUs (0: none is, now).
    ``owed`` are teams that wait and hold less than their own: (team, GPUs owed). ``classes`` are the priorities whose
    jobs may take its place: 0 from any team, others from its own. ``protected_ms`` is its minimum run time.
    """

    risk: Risk
    over: str
    beyond: int
    owed: tuple[tuple[str, int], ...]
    classes: tuple[int, ...]
    protected_ms: int
    saves: bool


def standing(snapshot: Snapshot, spec: JobSpec, gpu_type: str) -> Standing:
    """The job's path through the quota tree, as if it held its GPUs already."""
    path = snapshot.quota.leaf(spec.team).path[:-1]
    now, most = _owned(snapshot, spec, gpu_type)
    levels = []
    for branch in path:
        held = branch.held.get(gpu_type, 0)
        floor, ceiling = branch.node.floor.get(gpu_type, 0), branch.node.ceiling.get(gpu_type)
        levels.append(Level(branch.name, held, held + spec.gpus, floor, ceiling, now[branch], most[branch]))
    inside = [level.with_job <= level.floor for level in levels]
    band = Band.FLOOR if inside and all(inside) else Band.PARTLY if any(inside) else Band.BURST
    return Standing(gpu_type, band, tuple(levels))


def exposure(snapshot: Snapshot, policy: Policy, spec: JobSpec, gpu_type: str) -> Exposure:
    """Who could claim the job's GPUs, by the rules of reclaim and preemption."""
    stands = standing(snapshot, spec, gpu_type)
    over = max(stands.levels, key=lambda level: level.with_job - level.share, default=None)
    beyond = 0 if over is None else max(0, over.with_job - over.share)
    owed = _owed(snapshot, spec, gpu_type)
    if beyond and owed:
        risk = Risk.HIGH
    elif any(level.with_job > max(level.floor, level.least) for level in stands.levels):
        risk = Risk.MEDIUM
    else:
        risk = Risk.LOW
    least = [policy.min_runtime_ms, *(b.node.min_runtime_ms for b in snapshot.quota.leaf(spec.team).path)]
    return Exposure(
        risk=risk,
        over=over.name if over is not None and beyond else "",
        beyond=beyond,
        owed=owed,
        classes=tuple(range(spec.priority)) if policy.preemption else (),
        protected_ms=max(least),
        saves=spec.checkpoint is not None,
    )


def _owned(snapshot: Snapshot, spec: JobSpec, gpu_type: str) -> tuple[dict[Branch, int], dict[Branch, int]]:
    """What each branch may call its own: by what is wanted now, the job included, and if all wanted everything."""
    quota, usable = snapshot.quota, _usable(snapshot, gpu_type)
    wanted = _wanted(snapshot, gpu_type)
    leaf = quota.leaf(spec.team)
    wanted[leaf] = wanted.get(leaf, 0) + (0 if spec.id in snapshot.jobs else spec.gpus)
    everything = {branch: usable for branch in quota.by_name.values() if not branch.children}
    now = entitlements(quota.root, gpu_type, usable, wanted)
    most = entitlements(quota.root, gpu_type, usable, everything)
    return {b: ceil(part) for b, part in now.items()}, {b: ceil(part) for b, part in most.items()}


def _usable(snapshot: Snapshot, gpu_type: str) -> int:
    free = sum(zone.free for zone in snapshot.topology.by_type.get(gpu_type, ()))
    return free + snapshot.quota.root.held.get(gpu_type, 0)


def _wanted(snapshot: Snapshot, gpu_type: str) -> dict[Branch, int]:
    """What each team holds and waits for."""
    quota = snapshot.quota
    wanted = {b: b.held.get(gpu_type, 0) for b in quota.by_name.values() if not b.children}
    for group in snapshot.waiting.groups.values():
        if group.shape.gpu_type in (gpu_type, ANY_GPU_TYPE):
            leaf = quota.leaf(group.team)
            wanted[leaf] = wanted.get(leaf, 0) + group.shape.gpus * len(group.jobs)
    return wanted


def _owed(snapshot: Snapshot, spec: JobSpec, gpu_type: str) -> tuple[tuple[str, int], ...]:
    """Other teams that wait for GPUs of the type and hold less than their own, most owed first."""
    quota = snapshot.quota
    wanted = _wanted(snapshot, gpu_type)
    own = entitlements(quota.root, gpu_type, _usable(snapshot, gpu_type), wanted)
    owed = []
    for branch, wish in wanted.items():
        held = branch.held.get(gpu_type, 0)
        short = int(own.get(branch, 0)) - held
        if branch.name != spec.team and wish > held and short > 0:
            owed.append((branch.name, short))
    return tuple(sorted(owed, key=lambda entry: (-entry[1], entry[0])))
