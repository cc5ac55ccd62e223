"""Whether a job could ever run, before it is taken in."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.placement import zones_for
from scheduler.core.quota import Branch
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, Zone
from scheduler.core.types import ANY_GPU_TYPE, Hint, JobSpec, NvLink, Reason
from scheduler.core.waiting import spot_providers


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job is refused: ``code`` from the closed list, and the sentence that says it with its numbers."""

    code: Reason
    text: str


def refusal(snapshot: Snapshot, spec: JobSpec, now_ms: int) -> Refusal | None:
    """Why the job could never run on this fleet under this quota tree; None if it could, be it after a long wait."""
    quota = snapshot.quota
    if not quota.knows(spec.team):
        return Refusal(Reason.QUOTA_CEILING, f"{spec.team} is no team of the quota tree")
    leaf = quota.leaf(spec.team)
    if spec.priority == 0:
        for branch in leaf.path:
            if not branch.node.p0:
                return Refusal(Reason.QUOTA_CEILING, f"{branch.name} may not submit P0 jobs")
    types = [spec.gpu_type] if spec.gpu_type != ANY_GPU_TYPE else sorted(snapshot.topology.by_type)
    fitting = [name for name in types if fits_empty(snapshot, spec, name)]
    if not fitting:
        return Refusal(Reason.NEVER_FITS, _too_large(snapshot, spec))
    walls = [_ceiling(leaf, spec, name) for name in fitting]
    if all(wall is not None for wall in walls):
        return Refusal(Reason.QUOTA_CEILING, str(walls[0]))
    return None


def _ceiling(leaf: Branch, spec: JobSpec, gpu_type: str) -> str | None:
    for branch in leaf.path:
        ceiling = branch.node.ceiling.get(gpu_type)
        if ceiling is not None and spec.gpus > ceiling:
            return f"{spec.gpus} {gpu_type} GPUs are more than the ceiling of {branch.name}, {ceiling}"
        cap = branch.node.class_caps.get(spec.priority)
        if cap is not None and spec.gpus > cap:
            return f"{spec.gpus} GPUs are more than {branch.name} may hold in P{spec.priority} jobs, {cap}"
    return None


def fits_empty(snapshot: Snapshot, spec: JobSpec, gpu_type: str) -> bool:
    """Whether the gang would fit the fleet's nodes of one type if all of them were up and empty."""
    return any(_fits_zone(zone, spec) for zones in zones_for(snapshot.topology, gpu_type) for zone in zones)


def _fits_zone(zone: Zone, spec: JobSpec) -> bool:
    racks = [[node for node in rack.nodes if _suits(node, spec)] for rack in zone.racks()]
    ranks = [[_ranks(node, spec) for node in nodes] for nodes in racks]
    largest = max((most for counts in ranks for most in counts), default=0)
    if spec.gpus <= largest:
        return True
    if spec.hint is Hint.REQUIRE_SAME_HOST:
        return False
    if spec.hint is Hint.ANY:
        return sum(sum(counts) for counts in ranks) >= spec.gpus
    for size, pool in zone.pools.items():
        if spec.gpus <= size:
            continue
        whole, rest = divmod(spec.gpus, size)
        counts = [_whole_and_rest(racks[at], ranks[at], size, rest) for at in _positions(zone, pool.size)]
        domains = counts if spec.hint is Hint.REQUIRE_SAME_RACK else [_sum(counts)]
        if any(w >= whole and (not rest or w > whole or extra > 0) for w, extra in domains):
            return True
    return False


def _positions(zone: Zone, size: int) -> list[int]:
    return [at for at, rack in enumerate(zone.racks()) if rack.pool.size == size]


def _whole_and_rest(nodes: list[Node], ranks: list[int], size: int, rest: int) -> tuple[int, int]:
    """How many nodes can be taken whole, and how many others hold the remainder."""
    whole = sum(1 for most in ranks if most >= size)
    return whole, sum(1 for most in ranks if rest <= most < size) if rest else 0


def _sum(counts: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(whole for whole, _ in counts), sum(extra for _, extra in counts)


def _suits(node: Node, spec: JobSpec) -> bool:
    intent = node.intent
    if intent is None or (spec.nvlink is NvLink.REQUIRE and not intent.nvlink):
        return False
    return intent.spot is None or intent.spot in spot_providers(spec)


def _ranks(node: Node, spec: JobSpec) -> int:
    """How many ranks of the job the empty node would carry."""
    intent = node.intent
    assert intent is not None
    if spec.scratch_gb > intent.scratch_gb:
        return 0
    most = intent.gpus
    if spec.cpu_per_rank:
        most = min(most, intent.cpus // spec.cpu_per_rank)
    if spec.memory_per_rank_gb:
        most = min(most, intent.memory_gb // spec.memory_per_rank_gb)
    return most


def _too_large(snapshot: Snapshot, spec: JobSpec) -> str:
    zones = [zone for zones in zones_for(snapshot.topology, spec.gpu_type) for zone in zones]
    if not zones:
        return f"the fleet has no {spec.gpu_type} GPUs"
    total = max(sum(pool.size * len(rack.nodes) for pool in z.pools.values() for rack in pool.racks) for z in zones)
    if spec.gpus > total:
        return f"{spec.gpus} GPUs are more than the largest zone has, {total}"
    return f"no empty part of the fleet holds {spec.gpus} {spec.gpu_type} GPUs with this hint and these demands"
