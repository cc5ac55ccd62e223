"""Where the GPUs are: nodes in racks in zones, by free count, so that a placement costs about the number of racks.

A *zone* is one GPU type in one availability zone: a gang never leaves it. A *pool* is the part of a zone whose nodes
have the same number of GPUs. A rack keeps, for each count ``c``, a bitset of its nodes that are open to new work and
have exactly ``c`` GPUs free; a pool keeps, for each count, a bitset of its racks that have such a node.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.core.types import GangReport, Health, HostState, NodeDecision, NodeIntent, NodeReport


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones in ``mask``, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Node:
    """A host as the planner sees it. ``jobs`` maps the jobs that hold GPUs here to their bitmask of GPU indices."""

    __slots__ = (
        "alive",
        "all_mask",
        "bit",
        "bucket",
        "cpus_free",
        "decision",
        "faulty",
        "gangs",
        "held",
        "intent",
        "jobs",
        "memory_free",
        "name",
        "open",
        "rack",
        "report",
        "row",
        "scratch_free",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.intent: NodeIntent | None = None
        self.decision: NodeDecision | None = None
        self.report: NodeReport | None = None
        self.alive = False
        self.gangs: dict[str, GangReport] = {}
        self.jobs: dict[str, int] = {}
        self.held = 0
        self.faulty = 0
        self.all_mask = 0
        self.cpus_free = 0
        self.memory_free = 0
        self.scratch_free = 0
        self.open = False
        self.rack: Rack | None = None
        self.bit = 0
        self.bucket = -1
        self.row = -1

    @property
    def free_mask(self) -> int:
        return self.all_mask & ~self.held & ~self.faulty

    @property
    def free_gpus(self) -> int:
        """How many healthy GPUs no job holds, whether or not the node takes new work."""
        return (self.all_mask & ~self.held & ~self.faulty).bit_count()

    @property
    def health(self) -> Health:
        return self.decision.health if self.decision is not None else Health.READY

    def in_maintenance(self, now_ms: int) -> bool:
        intent = self.intent
        return intent is not None and any(w.start_ms <= now_ms < w.end_ms for w in intent.maintenance)

    def state(self, now_ms: int) -> HostState:
        """What a person sees: the first state of ``HostState`` that applies."""
        health = self.health
        if health is Health.DOWN:
            return HostState.DOWN
        if health is Health.SUSPECT or not self.alive:
            return HostState.SUSPECT
        if health is Health.QUARANTINED:
            return HostState.QUARANTINED
        if self.draining(now_ms):
            return HostState.DRAINING
        if self.hinted or (self.intent is not None and self.intent.cordon is not None):
            return HostState.CORDONED
        if self.decision is not None and self.decision.probation_ms > now_ms:
            return HostState.PROBATION
        return HostState.READY

    @property
    def hinted(self) -> bool:
        """Whether something is coming over the host that nothing new should be begun under."""
        return self.report is not None and bool(self.report.notices) and bool(self.report.hints)

    def draining(self, now_ms: int) -> bool:
        """Whether its jobs have to leave: by a person's wish, for maintenance, or because the host will be taken."""
        if self.report is not None and self.report.gone_at_ms is not None:
            return True
        return (self.intent is not None and self.intent.drain is not None) or self.in_maintenance(now_ms)

    def takes_work(self, health: Health | None = None) -> bool:
        """Whether a new gang may be put here, maintenance windows and reservations apart.

        ``health`` stands in for the node's own where a plan has decided another.
        """
        intent = self.intent
        return (
            self.alive
            and intent is not None
            and intent.cordon is None
            and intent.drain is None
            and (self.report is None or self.report.gone_at_ms is None)
            and not self.hinted
            and (self.health if health is None else health) is Health.READY
        )


class Rack:
    """The nodes of one rack that have the same GPU type and GPU count. ``unlinked`` are those without NVLink."""

    __slots__ = ("bit", "bucket", "by_capacity", "by_spot", "free", "index", "name", "nodes", "pool", "unlinked")

    def __init__(self, pool: Pool, name: str, index: int) -> None:
        self.pool = pool
        self.name = name
        self.index = index
        self.bit = 1 << index
        self.nodes: list[Node] = []
        self.bucket = [0] * (pool.size + 1)
        self.free = 0
        self.by_spot: dict[str, int] = {}
        self.unlinked = 0
        self.by_capacity: dict[tuple[int, int, int], int] = {}

    @property
    def whole(self) -> int:
        """How many open nodes are entirely free."""
        return self.bucket[self.pool.size].bit_count()

    def add(self, node: Node, intent: NodeIntent) -> None:
        node.rack = self
        node.bit = 1 << len(self.nodes)
        self.nodes.append(node)
        if intent.spot is not None:
            self.by_spot[intent.spot] = self.by_spot.get(intent.spot, 0) | node.bit
        if not intent.nvlink:
            self.unlinked |= node.bit
        capacity = (intent.cpus, intent.memory_gb, intent.scratch_gb)
        self.by_capacity[capacity] = self.by_capacity.get(capacity, 0) | node.bit


class Pool:
    """The nodes of a zone with ``size`` GPUs each. ``count[c]`` is how many open ones have exactly ``c`` free."""

    __slots__ = ("count", "having", "racks", "size", "zone")

    def __init__(self, zone: Zone, size: int) -> None:
        self.zone = zone
        self.size = size
        self.racks: list[Rack] = []
        self.having = [0] * (size + 1)
        self.count = [0] * (size + 1)

    def move(self, node: Node, rack: Rack, to: int) -> None:
        """Put ``node`` in the bucket of ``to`` free GPUs; -1: in none."""
        was = node.bucket
        if was == to:
            return
        bucket = rack.bucket
        if was >= 0:
            left = bucket[was] = bucket[was] ^ node.bit
            if not left:
                self.having[was] ^= rack.bit
            self.count[was] -= 1
            rack.free -= was
            self.zone.free -= was
        if to >= 0:
            if not bucket[to]:
                self.having[to] |= rack.bit
            bucket[to] |= node.bit
            self.count[to] += 1
            rack.free += to
            self.zone.free += to
        node.bucket = to


class Zone:
    """One GPU type in one availability zone. ``free`` counts the free GPUs of its open nodes, ``largest`` is the most
    GPUs that a node has."""

    __slots__ = ("az", "free", "gpu_type", "largest", "pools", "rack_of")

    def __init__(self, az: str, gpu_type: str) -> None:
        self.az = az
        self.gpu_type = gpu_type
        self.pools: dict[int, Pool] = {}
        self.rack_of: dict[tuple[str, int], Rack] = {}
        self.free = 0
        self.largest = 0

    def racks(self) -> Iterator[Rack]:
        for pool in self.pools.values():
            yield from pool.racks

    def home(self, intent: NodeIntent) -> Rack:
        """The rack that a node with this inventory belongs to, made if it is the first."""
        key = (intent.rack, intent.gpus)
        rack = self.rack_of.get(key)
        if rack is None:
            pool = self.pools.get(intent.gpus)
            if pool is None:
                pool = self.pools[intent.gpus] = Pool(self, intent.gpus)
                self.largest = max(self.largest, intent.gpus)
            rack = self.rack_of[key] = Rack(pool, intent.rack, len(pool.racks))
            pool.racks.append(rack)
        return rack


class Topology:
    """All zones, and the totals that shares are measured against: GPUs by type, CPUs, memory in GB."""

    def __init__(self) -> None:
        self.zones: dict[tuple[str, str], Zone] = {}
        self.by_type: dict[str, list[Zone]] = {}
        self.total: dict[str, int] = {}
        self.cpus = 0
        self.memory_gb = 0

    def add(self, node: Node, intent: NodeIntent) -> None:
        """Take ``node`` in with its inventory; it is in no bucket yet."""
        key = (intent.az, intent.gpu_type)
        zone = self.zones.get(key)
        if zone is None:
            zone = self.zones[key] = Zone(*key)
            self.by_type.setdefault(intent.gpu_type, []).append(zone)
        zone.home(intent).add(node, intent)
        node.all_mask = (1 << intent.gpus) - 1
        self._count(intent, 1)

    def remove(self, node: Node, intent: NodeIntent) -> None:
        """Let go of ``node``: its place in the rack stays empty."""
        rack = node.rack
        assert rack is not None
        rack.pool.move(node, rack, -1)
        for masks in (rack.by_spot, rack.by_capacity):
            for key, mask in list(masks.items()):
                masks[key] = mask & ~node.bit  # type: ignore[index]
        rack.unlinked &= ~node.bit
        node.rack = None
        node.all_mask = 0
        self._count(intent, -1)

    def _count(self, intent: NodeIntent, sign: int) -> None:
        self.total[intent.gpu_type] = self.total.get(intent.gpu_type, 0) + sign * intent.gpus
        self.cpus += sign * intent.cpus
        self.memory_gb += sign * intent.memory_gb

    def refile(self, node: Node) -> None:
        """Put ``node`` in the bucket that its state and its free GPUs call for."""
        rack = node.rack
        if rack is not None:
            rack.pool.move(node, rack, node.free_gpus if node.open else -1)


def same_inventory(one: NodeIntent, other: NodeIntent) -> bool:
    """Whether a node has what it had, where it was."""
    return (
        one.az == other.az
        and one.rack == other.rack
        and one.gpu_type == other.gpu_type
        and one.gpus == other.gpus
        and one.cpus == other.cpus
        and one.memory_gb == other.memory_gb
        and one.scratch_gb == other.scratch_gb
        and one.spot == other.spot
        and one.nvlink == other.nvlink
    )
