"""Where a gang goes: one GPU type, one zone, the shape rule, and the least leftover.

The shape rule: unless its hint is ``any``, a gang of at most a node's GPUs sits on one node, and a larger one takes
whole nodes plus at most one node for the remainder. Among the places that it allows, the tightest domain wins, then
the one that leaves the fewest GPUs over: broken nodes are filled before whole ones, small racks before large ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.limits import Asker, Limits
from scheduler.core.topology import Node, Pool, Rack, Topology, Zone, bits
from scheduler.core.types import ANY_GPU_TYPE, Hint, NvLink, Slice
from scheduler.core.waiting import Shape

Part = tuple[Node, int]
"""A node and the bitmask of the GPUs taken there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a gang would sit, in the order of its ranks."""

    gpu_type: str
    parts: tuple[Part, ...]

    def slices(self) -> tuple[Slice, ...]:
        return tuple(Slice(node.name, indices_of(mask)) for node, mask in self.parts)


_INDICES: dict[int, tuple[int, ...]] = {}


def indices_of(mask: int) -> tuple[int, ...]:
    """The GPU indices in a bitmask, ascending."""
    indices = _INDICES.get(mask)
    if indices is None:
        indices = _INDICES[mask] = tuple(bits(mask))
    return indices


class Sieve:
    """Which nodes of a rack one job may use: its kind of host, its CPUs and memory, what is closed to it."""

    __slots__ = ("_asker", "_demands", "_end_ms", "_limits", "_shape", "avoid", "linked")

    def __init__(self, shape: Shape, limits: Limits, asker: Asker, end_ms: int, demands: bool = True) -> None:
        self._shape = shape
        self._limits = limits
        self._asker = asker
        self._end_ms = end_ms
        self._demands = demands and bool(shape.cpu or shape.memory or shape.scratch)
        self.avoid = frozenset(shape.avoid)
        self.linked = shape.nvlink is not NvLink.ANY

    def __call__(self, rack: Rack, mask: int, gpus: int) -> int:
        """Those nodes of ``mask`` on which ``gpus`` ranks of the job may run."""
        shape = self._shape
        for provider, nodes in rack.by_spot.items():
            if provider not in shape.spot:
                mask &= ~nodes
        if self.linked:
            mask &= ~rack.unlinked
        if rack in self._limits.closed:
            mask &= ~self._limits.shut(rack, self._end_ms, self._asker)
        limited = self._limits.masks.get(rack, 0) & mask
        for at in bits(limited):
            node = rack.nodes[at]
            if self._limits.against(node, gpus, self._end_ms, self._asker) is not None:
                mask &= ~node.bit
        if self._demands:
            mask = self._able(rack, mask, gpus)
        if self.avoid:
            for at in bits(mask):
                if rack.nodes[at].name in self.avoid:
                    mask &= ~(1 << at)
        return mask

    def _able(self, rack: Rack, mask: int, gpus: int) -> int:
        shape = self._shape
        if gpus == rack.pool.size:
            able = 0
            for (cpus, memory, scratch), nodes in rack.by_capacity.items():
                if gpus * shape.cpu <= cpus and gpus * shape.memory <= memory and shape.scratch <= scratch:
                    able |= nodes
            return mask & able
        for at in bits(mask):
            if self.ranks(rack.nodes[at], gpus) < gpus:
                mask &= ~(1 << at)
        return mask

    def ranks(self, node: Node, most: int) -> int:
        """How many ranks of the job, up to ``most``, the node's free CPUs, memory and scratch carry."""
        shape = self._shape
        if not self._demands:
            return most
        cpus, memory, scratch = self._limits.left(node, self._asker)
        if shape.scratch > scratch:
            return 0
        if shape.cpu:
            most = min(most, cpus // shape.cpu)
        if shape.memory:
            most = min(most, memory // shape.memory)
        return max(0, most)


def zones_for(topology: Topology, gpu_type: str, allowed: Iterable[str] | None = None) -> list[list[Zone]]:
    """The zones of each GPU type to try, most free GPUs first; ``allowed`` narrows down what ``any`` may be."""
    if gpu_type != ANY_GPU_TYPE:
        zones = topology.by_type.get(gpu_type)
        return [zones] if zones else []
    types = topology.by_type if allowed is None else [name for name in topology.by_type if name in set(allowed)]
    return sorted((topology.by_type[name] for name in types), key=lambda zones: -sum(zone.free for zone in zones))


def find(topology: Topology, shape: Shape, sieve: Sieve, allowed: Iterable[str] | None = None) -> Placement | None:
    """The best place for the gang among what is free now; None if there is none. ``avoid`` is heeded if it can be, and
    so is a mere preference for NVLink, which is the first to be let go of."""
    for zones in zones_for(topology, shape.gpu_type, allowed):
        parts = _find(zones, shape, sieve) or _less_choosy(zones, shape, sieve)
        if parts is not None:
            return Placement(zones[0].gpu_type, parts)
    return None


def _less_choosy(zones: Sequence[Zone], shape: Shape, sieve: Sieve) -> tuple[Part, ...] | None:
    avoid, linked = sieve.avoid, sieve.linked
    parts = None
    if shape.nvlink is NvLink.PREFER:
        sieve.linked = False
        parts = _find(zones, shape, sieve)
    if parts is None and avoid:
        sieve.avoid = frozenset()
        parts = _find(zones, shape, sieve)
    sieve.avoid, sieve.linked = avoid, linked
    return parts


def _find(zones: Sequence[Zone], shape: Shape, sieve: Sieve) -> tuple[Part, ...] | None:
    parts = _one_node(zones, shape.gpus, sieve)
    if parts is not None or shape.hint is Hint.REQUIRE_SAME_HOST:
        return parts
    if shape.hint is Hint.ANY:
        return _whole_nodes(zones, shape.gpus, sieve, True) or _pieces(zones, shape.gpus, sieve)
    return _whole_nodes(zones, shape.gpus, sieve, shape.hint is Hint.REQUIRE_SAME_RACK)


def may_fit(topology: Topology, shape: Shape) -> bool:
    """A quick no: whether counts alone leave it open that the gang fits what is free now."""
    gpus = shape.gpus
    for zones in zones_for(topology, shape.gpu_type):
        for zone in zones:
            if zone.free < gpus:
                continue
            if shape.hint is Hint.ANY:
                return True
            for pool in zone.pools.values():
                if gpus <= pool.size:
                    if any(pool.count[gpus:]):
                        return True
                elif pool.count[pool.size] >= gpus // pool.size:
                    return True
    return False


MANY_NODES = 1 << 32
"""More than a rack has."""


def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest ones of ``mask``."""
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken


def _one_node(zones: Sequence[Zone], gpus: int, sieve: Sieve) -> tuple[Part, ...] | None:
    """The node with the fewest free GPUs that suffice; a whole one in the rack with the fewest whole ones."""
    largest = max([zone.largest for zone in zones], default=0)
    for free in range(gpus, largest + 1):
        best: tuple[Rack, int] | None = None
        lowest_key = MANY_NODES * 2
        for zone in zones:
            for size, pool in zone.pools.items():
                having = pool.having[free] if free <= size else 0
                racks, whole = pool.racks, MANY_NODES if free == size else 0
                while having:
                    low = having & -having
                    having ^= low
                    rack = racks[low.bit_length() - 1]
                    key = rack.bucket[size].bit_count() + whole
                    if key < lowest_key:
                        mask = sieve(rack, rack.bucket[free], gpus)
                        if mask:
                            lowest_key = key
                            best = (rack, mask)
        if best is not None:
            rack, mask = best
            node = rack.nodes[(mask & -mask).bit_length() - 1]
            return ((node, lowest(node.free_mask, gpus)),)
    return None


def _whole_nodes(zones: Sequence[Zone], gpus: int, sieve: Sieve, one_rack: bool) -> tuple[Part, ...] | None:
    """Whole nodes plus a remainder, in one rack if any holds it, else over the fewest racks of one zone."""
    pools = [pool for zone in zones for pool in zone.pools.values() if pool.size < gpus]
    best: tuple[tuple[int, ...], tuple[Part, ...]] | None = None
    for pool in pools:
        spread = _Spread(pool, gpus, sieve)
        found = spread.in_one_rack()
        if found is None and not one_rack:
            found = spread.over_racks()
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best[1] if best is not None else None


class _Spread:
    """The places of one gang of ``whole`` whole nodes and ``rest`` GPUs more in one pool."""

    def __init__(self, pool: Pool, gpus: int, sieve: Sieve) -> None:
        self.pool = pool
        self.sieve = sieve
        self.whole, self.rest = divmod(gpus, pool.size)
        self.free: list[tuple[int, Rack, int]] = []
        if pool.count[pool.size] < self.whole:
            return
        for at in bits(pool.having[pool.size]):
            rack = pool.racks[at]
            mask = sieve(rack, rack.bucket[pool.size], pool.size)
            if mask:
                self.free.append((mask.bit_count(), rack, mask))

    def in_one_rack(self) -> tuple[tuple[int, ...], tuple[Part, ...]] | None:
        """In the rack with the fewest whole nodes that suffice, the remainder on a broken node if one fits it."""
        best: tuple[tuple[int, ...], Rack, int, Part | None] | None = None
        for count, rack, mask in self.free:
            if count < self.whole or (best is not None and (1, 0, count) >= best[0]):
                continue
            piece = self._piece([rack]) if self.rest else None
            needed = self.whole + (1 if self.rest and piece is None else 0)
            if needed > count:
                continue
            key = (1, needed - self.whole, count)
            if best is None or key < best[0]:
                best = (key, rack, mask, piece)
        if best is None:
            return None
        ranking, rack, mask, piece = best
        return ranking, self._parts([(rack, self.whole)], {rack: mask}, piece)

    def over_racks(self) -> tuple[tuple[int, ...], tuple[Part, ...]] | None:
        """Over the fewest racks: the largest first, and for what is then left the smallest that suffices."""
        masks = {rack: mask for _, rack, mask in self.free}
        left = self.whole
        chosen: list[tuple[Rack, int]] = []
        by_size = sorted(self.free, key=lambda entry: (entry[0], -entry[1].index))
        while left > 0 and by_size:
            fitting = [entry for entry in by_size if entry[0] >= left]
            entry = fitting[0] if fitting else by_size[-1]
            by_size.remove(entry)
            taken = min(left, entry[0])
            chosen.append((entry[1], taken))
            left -= taken
        if left > 0:
            return None
        piece: Part | None = None
        if self.rest:
            piece = self._piece([rack for rack, _ in chosen]) or self._piece(self.pool.racks)
            if piece is None and not self._room_for_rest(chosen, masks):
                return None
        total = sum(count for count, _, _ in self.free)
        return (len(chosen), int(self.rest > 0 and piece is None), total), self._parts(chosen, masks, piece)

    def _room_for_rest(self, chosen: list[tuple[Rack, int]], masks: dict[Rack, int]) -> bool:
        """Take one more whole node, if there is one, for the remainder."""
        for at, (rack, taken) in enumerate(chosen):
            if masks[rack].bit_count() > taken:
                chosen[at] = (rack, taken + 1)
                return True
        used = {rack for rack, _ in chosen}
        others = [(count, rack.index, rack) for count, rack, _ in self.free if rack not in used]
        if others:
            chosen.append((min(others)[2], 1))
        return bool(others)

    def _piece(self, racks: Iterable[Rack]) -> Part | None:
        """The broken node with the fewest free GPUs that hold the remainder."""
        for free in range(self.rest, self.pool.size):
            for rack in racks:
                if not rack.bucket[free]:
                    continue
                mask = self.sieve(rack, rack.bucket[free], self.rest)
                if mask:
                    node = rack.nodes[(mask & -mask).bit_length() - 1]
                    return node, lowest(node.free_mask, self.rest)
        return None

    def _parts(
        self, chosen: Iterable[tuple[Rack, int]], masks: dict[Rack, int], piece: Part | None
    ) -> tuple[Part, ...]:
        nodes = [rack.nodes[at] for rack, count in chosen for at in bits(lowest(masks[rack], count))]
        if self.rest and piece is None and len(nodes) == self.whole:
            rack, _ = next(iter(chosen))
            spare = masks[rack] & ~sum(node.bit for node in nodes if node.rack is rack)
            nodes.append(rack.nodes[(spare & -spare).bit_length() - 1])
        parts = [(node, node.all_mask) for node in nodes[: self.whole]]
        if piece is not None:
            parts.append(piece)
        elif self.rest:
            parts.append((nodes[self.whole], lowest(nodes[self.whole].all_mask, self.rest)))
        return tuple(parts)


def _pieces(zones: Sequence[Zone], gpus: int, sieve: Sieve) -> tuple[Part, ...] | None:
    """Whatever is free: in the rack with the fewest free GPUs that suffice, else over the fullest racks of a zone."""
    best: tuple[int, tuple[Part, ...]] | None = None
    for zone in zones:
        for rack in zone.racks():
            if rack.free >= gpus and (best is None or rack.free < best[0]):
                parts = _gather([rack], gpus, sieve)
                if parts is not None:
                    best = (rack.free, parts)
    if best is not None:
        return best[1]
    for zone in sorted(zones, key=lambda zone: zone.free):
        if zone.free >= gpus:
            racks = sorted(zone.racks(), key=lambda rack: (-rack.free, rack.index))
            parts = _gather(racks, gpus, sieve)
            if parts is not None:
                return parts
    return None


def _gather(racks: Iterable[Rack], gpus: int, sieve: Sieve) -> tuple[Part, ...] | None:
    """Take from each rack in turn, from its freest nodes first, until there are enough."""
    parts: list[Part] = []
    left = gpus
    for rack in racks:
        for free in range(rack.pool.size, 0, -1):
            for at in bits(rack.bucket[free]):
                node = rack.nodes[at]
                take = min(left, sieve.ranks(node, free))
                while take > 0 and not sieve(rack, node.bit, take):
                    take -= 1
                if take > 0:
                    parts.append((node, lowest(node.free_mask, take)))
                    left -= take
                    if left == 0:
                        return tuple(parts)
    return None
