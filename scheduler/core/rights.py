"""What a job's team may call its own, level by level, and how safe the job's GPUs would be there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from scheduler.core.balance import balance, owned, wanted
from scheduler.core.quota import Branch
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobSpec, Policy


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


def exposure(snapshot: Snapshot, policy: Policy, spec: JobSpec, stands: Standing) -> Exposure:
    """Who could claim the job's GPUs where it ``stands``, by the rules of reclaim and preemption."""
    over = max(stands.levels, key=lambda level: level.with_job - level.share, default=None)
    beyond = 0 if over is None else max(0, over.with_job - over.share)
    owed = _owed(snapshot, spec, stands.gpu_type)
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
    wishes = wanted(snapshot, gpu_type)
    if spec.id not in snapshot.jobs:
        leaf = snapshot.quota.leaf(spec.team)
        wishes[leaf] = wishes.get(leaf, 0) + spec.gpus
    now, most = owned(snapshot, gpu_type, wishes)
    return {b: ceil(part) for b, part in now.items()}, {b: ceil(part) for b, part in most.items()}


def _owed(snapshot: Snapshot, spec: JobSpec, gpu_type: str) -> tuple[tuple[str, int], ...]:
    """Other teams that wait for GPUs of the type and hold less than their own, most owed first."""
    lines = balance(snapshot, gpu_type)
    owed = [(line.node, line.owed) for line in lines if line.team and line.owed and line.node != spec.team]
    return tuple(sorted(owed, key=lambda entry: (-entry[1], entry[0])))
