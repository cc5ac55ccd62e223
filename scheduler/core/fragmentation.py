"""How much of what is free can be used: the largest gang that could start now, and the share lost to breakage."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Zone


def largest_gang(snapshot: Snapshot, gpu_type: str) -> int:
    """GPUs of the largest gang of whole nodes and one remainder that could start now in one zone."""
    return max((_largest_in(zone) for zone in snapshot.topology.by_type.get(gpu_type, ())), default=0)


def _largest_in(zone: Zone) -> int:
    largest = 0
    for size, pool in zone.pools.items():
        broken = max((free for free in range(1, size) if pool.count[free]), default=0)
        largest = max(largest, pool.count[size] * size + broken)
    return largest


def largest_gang_by_rack(snapshot: Snapshot, gpu_type: str) -> dict[tuple[str, str], int]:
    """The same within each rack, by (zone, rack)."""
    answer: dict[tuple[str, str], int] = {}
    for zone in snapshot.topology.by_type.get(gpu_type, ()):
        for rack in zone.racks():
            size = rack.pool.size
            broken = max((free for free in range(1, size) if rack.bucket[free]), default=0)
            key = (zone.az, rack.name)
            answer[key] = max(answer.get(key, 0), rack.whole * size + broken)
    return answer


def unusable_share(snapshot: Snapshot, gpu_type: str, mix: Mapping[int, int]) -> Fraction:
    """The share of free GPUs that the jobs people submit cannot use: the mean over ``mix``, from size to how many.

    For a size, usable is what can be filled with gangs of that size by the shape rule. 0 where nothing is free.
    """
    zones = snapshot.topology.by_type.get(gpu_type, [])
    free = sum(zone.free for zone in zones)
    jobs = sum(mix.values())
    if not free or not jobs:
        return Fraction(0)
    lost = sum(weight * (free - sum(_usable(zone, size) for zone in zones)) for size, weight in mix.items())
    return Fraction(lost, free * jobs)


def _usable(zone: Zone, gpus: int) -> int:
    """GPUs of the zone's free ones that gangs of ``gpus`` can fill."""
    usable = 0
    for size, pool in zone.pools.items():
        if gpus <= size:
            usable += sum(free // gpus * gpus * pool.count[free] for free in range(gpus, size + 1))
            continue
        whole, rest = divmod(gpus, size)
        gangs = pool.count[size] // whole
        if rest:
            pieces = sum(pool.count[free] for free in range(rest, size))
            while gangs and max(0, gangs - pieces) + gangs * whole > pool.count[size]:
                gangs -= 1
        usable += gangs * gpus
    return usable
