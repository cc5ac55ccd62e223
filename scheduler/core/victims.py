"""Whom to stop so that a gang fits: the least cost, in one domain where it then fits by the shape rule.

A victim's price is GPUs x (time since its newest checkpoint + restart), and a more important class always costs more
than any number of less important ones. What is stopping already, or would be, costs nothing more. The set found is
trimmed: no victim stays in it without whom the gang fits as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.core.job import Job
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, Pool, Rack, Zone
from scheduler.core.types import Hint, Phase
from scheduler.core.waiting import Shape

RESTART_MS = 60_000
"""What a restart costs beside the work lost: image, rendezvous, reading the checkpoint."""

CLASS_PRICE = 1 << 60
"""More than any price in GPU-milliseconds."""

LEAST_IMPORTANT = 3


def price(job: Job, now_ms: int) -> int:
    """What stopping the job costs, in GPU-milliseconds, its class counted in."""
    decision = job.decision
    since = decision.started_ms if decision.started_ms is not None else now_ms
    if job.spec.checkpoint is not None:
        since = max(since, decision.saved_at_ms)
    work = job.spec.gpus * (max(0, now_ms - since) + RESTART_MS)
    rank = max(0, LEAST_IMPORTANT - job.priority)
    return work + (job.spec.gpus << (60 * rank) if rank else 0)


@dataclass(slots=True)
class Room:
    """One node as the asker could have it: ``free`` GPUs now or without further cost, ``victims`` with what each would
    free here."""

    node: Node
    free: int
    victims: list[tuple[Job, int]] = field(default_factory=list)

    @property
    def most(self) -> int:
        return self.free + sum(gpus for _, gpus in self.victims)


@dataclass(slots=True)
class Eviction:
    """Whom to stop, and where the asker then sits: nodes with GPU counts, in the order of its ranks."""

    victims: list[Job]
    parts: list[tuple[Node, int]]
    cost: int
    gpu_type: str


class Search:
    """The search for one asker. ``may_stop`` says who may be a victim; it is asked anew as the set grows."""

    def __init__(
        self,
        snapshot: Snapshot,
        limits: Limits,
        asker: Asker,
        shape: Shape,
        end_ms: int,
        now_ms: int,
        may_stop: Callable[[Job, Sequence[Job]], bool],
        given: Sequence[Job] = (),
    ) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._asker = asker
        self._shape = shape
        self._end_ms = end_ms
        self._now_ms = now_ms
        self._may_stop = may_stop
        self._given = {job.id for job in given}
        self._base = list(given)
        self._sieve = Sieve(shape, limits, asker, end_ms, demands=False)
        self._prices: dict[str, int] = {}

    def best(self, zones: Iterable[Zone]) -> Eviction | None:
        """The cheapest way in any of the zones; the tightest domain wins among those of the same worst class."""
        found = [option for zone in zones for option in self._in_zone(zone)]
        if not found:
            return None
        return min(found, key=lambda option: (option[1].cost >> 60, option[0], option[1].cost))[1]

    def _in_zone(self, zone: Zone) -> Iterable[tuple[int, Eviction]]:
        """Options with their domain: 0 for one node, 1 for one rack, 2 for the zone."""
        by_rack = [
            [room for node in rack.nodes if (room := self._room(rack, node)) is not None] for rack in zone.racks()
        ]
        shape = self._shape
        for pool in zone.pools.values():
            racks = [rooms for rack, rooms in zip(zone.racks(), by_rack, strict=True) if rack.pool is pool]
            if shape.gpus <= pool.size:
                yield from self._options(
                    0, [[room] for rooms in racks for room in rooms if room.most >= shape.gpus], pool
                )
            elif shape.hint is not Hint.REQUIRE_SAME_HOST and shape.hint is not Hint.ANY:
                yield from self._options(1, racks, pool)
                if shape.hint is not Hint.REQUIRE_SAME_RACK:
                    yield from self._options(2, [[room for rooms in racks for room in rooms]], pool)
        if shape.hint is Hint.ANY:
            whole = next(iter(zone.pools.values()))
            yield from self._options(1, by_rack, whole)
            yield from self._options(2, [[room for rooms in by_rack for room in rooms]], whole)

    def _options(self, domain: int, lists: Iterable[list[Room]], pool: Pool) -> Iterable[tuple[int, Eviction]]:
        best: Eviction | None = None
        for rooms in lists:
            if sum(room.most for room in rooms) < self._shape.gpus:
                continue
            found = self._among(rooms, pool)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        if best is not None:
            yield domain, best

    # --- one node as the asker could have it --------------------------------------------------------------------

    def _room(self, rack: Rack, node: Node) -> Room | None:
        if not node.open or node.rack is not rack:
            return None
        for provider, mask in rack.by_spot.items():
            if provider not in self._shape.spot and node.bit & mask:
                return None
        held = 0
        for bar in self._limits.by_node.get(node.name, ()):
            if bar.from_ms < self._end_ms and self._asker.heeds(bar):
                held += bar.takes
        room = Room(node, node.free_gpus)
        for name, mask in node.jobs.items():
            job = self._snapshot.jobs[name]
            gpus = (mask & ~node.faulty).bit_count()
            if job.phase is Phase.STOPPING or name in self._given:
                room.free += gpus
            elif self._may_stop(job, self._base):
                room.victims.append((job, gpus))
        room.free = max(0, room.free - held)
        if held and room.victims:
            room.victims = room.victims if room.most - held >= 0 else []
        limit = self._carried(node)
        if limit < self._shape.gpus:
            room.free = min(room.free, limit)
        return room if room.most > 0 else None

    def _carried(self, node: Node) -> int:
        """How many ranks the node's CPUs and memory carry once its victims are gone (an upper bound: all of them)."""
        intent, shape = node.intent, self._shape
        assert intent is not None
        most = intent.gpus
        if shape.cpu:
            most = min(most, intent.cpus // shape.cpu)
        if shape.memory:
            most = min(most, intent.memory_gb // shape.memory)
        return most if shape.scratch <= intent.scratch_gb else 0

    # --- a set of victims among the rooms of one domain ---------------------------------------------------------

    def _among(self, rooms: list[Room], pool: Pool) -> Eviction | None:
        victims = self._grow(rooms, pool)
        if victims is None:
            return None
        victims = self._trim(rooms, pool, victims)
        parts = self._fit(rooms, pool, {job.id for job in victims})
        assert parts is not None
        cost = sum(self._price(job) for job in victims)
        return Eviction(victims, parts, cost, pool.zone.gpu_type)

    def _price(self, job: Job) -> int:
        cost = self._prices.get(job.id)
        if cost is None:
            cost = self._prices[job.id] = price(job, self._now_ms)
        return cost

    def _grow(self, rooms: list[Room], pool: Pool) -> list[Job] | None:
        """Take in victims, the cheapest node (or job, for pieces) first, until the gang fits."""
        if self._shape.gpus <= pool.size and len(rooms) == 1:
            return self._least_on_node(rooms[0], self._shape.gpus)
        chosen: dict[str, Job] = {}
        if self._fit(rooms, pool, set()) is not None:
            return []
        steps = self._pieces(rooms) if self._shape.hint is Hint.ANY else self._nodes(rooms, pool)
        for step in steps:
            new = [job for job in step if job.id not in chosen]
            if not new or not self._may_all(new, list(chosen.values())):
                continue
            chosen.update((job.id, job) for job in new)
            if self._fit(rooms, pool, set(chosen)) is not None:
                return list(chosen.values())
        return None

    def _may_all(self, new: Sequence[Job], chosen: list[Job]) -> bool:
        so_far = self._base + chosen
        for job in new:
            if not self._may_stop(job, so_far):
                return False
            so_far = [*so_far, job]
        return True

    def _pieces(self, rooms: list[Room]) -> list[list[Job]]:
        jobs = {job.id: job for room in rooms for job, _ in room.victims}
        return [[job] for job in sorted(jobs.values(), key=lambda job: (self._price(job) // job.spec.gpus, job.id))]

    def _nodes(self, rooms: list[Room], pool: Pool) -> list[list[Job]]:
        """Per node its victims; a gang's price counts on each of its nodes for the part that it has there.

        First the nodes that can be had whole, cheapest first; then, for the remainder, the least set on each node.
        """
        rest = self._shape.gpus % pool.size
        whole = [room for room in rooms if room.most == pool.size and room.victims]
        steps = sorted(
            (sum(self._price(job) * gpus // job.spec.gpus for job, gpus in room.victims), room.node.name, room)
            for room in whole
        )
        lists = [[job for job, _ in room.victims] for _, _, room in steps]
        if not rest:
            return lists
        needed = self._shape.gpus // pool.size - sum(1 for room in rooms if room.free == pool.size)
        pieces = [
            (sum(map(self._price, least)), room.node.name, least)
            for room in rooms
            if room.free < rest <= room.most and (least := self._least_on_node(room, rest)) is not None
        ]
        return lists[: max(0, needed)] + [least for _, _, least in sorted(pieces, key=lambda p: p[:2])] + lists

    def _least_on_node(self, room: Room, gpus: int) -> list[Job] | None:
        """The cheapest victims on one node that free enough: a knapsack over at most a node's GPUs."""
        short = gpus - room.free
        if short <= 0:
            return []
        best: list[tuple[int, tuple[int, ...]] | None] = [None] * (short + 1)
        best[0] = (0, ())
        for at, (job, freed) in enumerate(room.victims):
            for filled in range(short, -1, -1):
                so_far = best[filled]
                if so_far is None or filled == short:
                    continue
                to = min(short, filled + freed)
                option = (so_far[0] + self._price(job), (*so_far[1], at))
                known = best[to]
                if known is None or option < known:
                    best[to] = option
        full = best[short]
        if full is None:
            return None
        victims = [room.victims[at][0] for at in full[1]]
        return victims if self._may_all(victims, []) else None

    def _trim(self, rooms: list[Room], pool: Pool, victims: list[Job]) -> list[Job]:
        """Let go of victims without whom the gang fits as well, the dearest first."""
        kept = {job.id: job for job in victims}
        for job in sorted(victims, key=lambda job: (-self._price(job), job.id)):
            without = set(kept) - {job.id}
            if self._fit(rooms, pool, without) is not None:
                del kept[job.id]
        return list(kept.values())

    def _fit(self, rooms: list[Room], pool: Pool, gone: set[str]) -> list[tuple[Node, int]] | None:
        """Where the gang sits once those victims are gone; None if it does not fit."""
        free = [(room.free + sum(g for job, g in room.victims if job.id in gone), room.node) for room in rooms]
        gpus = self._shape.gpus
        if self._shape.hint is Hint.ANY:
            return _fit_pieces(free, gpus)
        if gpus <= pool.size:
            fitting = [(count, node.name, node) for count, node in free if count >= gpus]
            return [(min(fitting)[2], gpus)] if fitting else None
        whole, rest = divmod(gpus, pool.size)
        ready = [node for count, node in free if count == pool.size]
        if len(ready) < whole:
            return None
        parts = [(node, pool.size) for node in ready[:whole]]
        if rest:
            used = {node.name for node in ready[:whole]}
            others = [(count, node.name, node) for count, node in free if count >= rest and node.name not in used]
            if not others:
                return None
            parts.append((min(others)[2], rest))
        return parts


def _fit_pieces(free: list[tuple[int, Node]], gpus: int) -> list[tuple[Node, int]] | None:
    parts: list[tuple[Node, int]] = []
    for count, node in sorted(free, key=lambda entry: (-entry[0], entry[1].name)):
        take = min(gpus, count)
        if take > 0:
            parts.append((node, take))
            gpus -= take
        if gpus == 0:
            return parts
    return None
