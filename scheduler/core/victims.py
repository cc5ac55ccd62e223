"""Whom to stop so that a gang fits: the least cost, in one domain where it then fits by the shape rule.

A victim's price is GPUs x (time since its newest checkpoint + restart), and a more important class always costs more
than any number of less important ones. What is stopping already costs nothing more. The set found is trimmed: no victim
stays in it without whom the gang fits as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.cheapest import SMALL, Cheapest
from scheduler.core.job import Job
from scheduler.core.layout import Bar
from scheduler.core.limits import Asker, Limits
from scheduler.core.prices import CLASS_BITS, price
from scheduler.core.rooms import Room, Rooms, Rules, joined, least_on, ways_on
from scheduler.core.snapshot import Snapshot
from scheduler.core.tally import Need, Tally
from scheduler.core.topology import Node, Rack, Zone, bits
from scheduler.core.types import Hint, NvLink
from scheduler.core.waiting import Shape

ON_ONE_NODE, IN_ONE_RACK, IN_THE_ZONE = 0, 1, 2
"""Domains, the tightest first."""

TRIES = 16
"""On so many nodes all sets of victims are tried where the cheapest one will not do."""

MayStop = Callable[[Job, Sequence[Job]], bool]
"""Whether a job may be a victim beside those chosen already."""


@dataclass(slots=True)
class Eviction:
    """Whom to stop, and where the asker then sits: nodes with GPU counts, in the order of its ranks."""

    victims: list[Job]
    parts: list[tuple[Node, int]]
    cost: int
    gpu_type: str


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks and for what; ``end_ms`` is the asker's planned end, ``given`` are victims that are chosen already."""

    asker: Asker
    shape: Shape
    end_ms: int
    now_ms: int
    given: tuple[Job, ...] = ()


@dataclass(slots=True)
class Known:
    """What several searches of a plan share: prices of victims, and rooms for askers to whom the same is open."""

    prices: dict[str, int]
    rooms: dict[Rack, Rooms] = field(default_factory=dict)
    with_candidates: dict[Rack, int] | None = None
    """The nodes of each rack on which a candidate, or somebody who is being stopped, holds GPUs."""


class Search:
    """The search for one asker among ``candidates``, the jobs that it might stop one by one.

    ``known`` is what searches with the same candidates, by askers to whom the same is closed, have found out. What the
    caller does not ``accept`` is not answered, another way is sought.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        limits: Limits,
        question: Question,
        candidates: Collection[str],
        may_stop: MayStop,
        known: Known | None = None,
        accepts: Callable[[Eviction], bool] = lambda _: True,
    ) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._question = question
        self._shape = question.shape
        self._candidates = candidates
        self._may_stop = may_stop
        self._known = Known({}) if known is None else known
        self._accepts = accepts
        self._given = {job.id for job in question.given}
        self._small = False
        self._best: tuple[int, int, int] | None = None
        """Of the best way found so far the class of the most important victims, its domain and its cost."""
        self._found: Eviction | None = None

    def best(self, zones: Iterable[Zone]) -> Eviction | None:
        """The cheapest way in any of the zones; the tightest domain wins among those of the same worst class."""
        for zone in zones:
            self._in_zone(zone)
        return self._found

    def _in_zone(self, zone: Zone) -> None:
        by_rack = [(rack, self._rooms(rack)) for rack in zone.racks()]
        shape = self._shape
        self._small = sum(len(rooms.all) for _, rooms in by_rack) <= SMALL
        if shape.hint is Hint.ANY:
            self._in_domains([rooms for _, rooms in by_rack], Need.of(shape, 0), zone)
        for size in zone.pools:
            racks = [rooms for rack, rooms in by_rack if rack.pool.size == size]
            if shape.gpus <= size:
                self._offer(ON_ONE_NODE, self._on_one_node(joined(racks).all, zone))
            elif shape.hint is not Hint.REQUIRE_SAME_HOST and shape.hint is not Hint.ANY:
                self._in_domains(racks, Need.of(shape, size), zone)

    def _in_domains(self, racks: list[Rooms], need: Need, zone: Zone) -> None:
        """Look in each rack, then in the whole zone, unless nothing found there could be better."""
        for rooms in racks:
            if rooms.most >= self._shape.gpus:
                self._offer(IN_ONE_RACK, self._among(rooms.all, need, zone))
        if self._shape.hint is Hint.REQUIRE_SAME_RACK or (self._best is not None and self._best < (0, IN_THE_ZONE)):
            return
        rooms = joined(racks)
        if rooms.most >= self._shape.gpus:
            self._offer(IN_THE_ZONE, self._among(rooms.all, need, zone))

    def _offer(self, domain: int, found: Eviction | None) -> None:
        if found is not None:
            rank = found.cost >> CLASS_BITS, domain, found.cost
            if self._best is None or rank < self._best:
                self._best, self._found = rank, found

    def _on_one_node(self, rooms: list[Room], zone: Zone) -> Eviction | None:
        """The cheapest victims on any one node, trimmed; the fullest of equals."""
        gpus = self._shape.gpus
        options = []
        for at, room in enumerate(rooms):
            if gpus not in room.least:
                room.least[gpus] = least_on(room, gpus, self._price)
            least = room.least[gpus]
            if least is not None:
                options.append((sum(map(self._price, least)), room.most, at, least))
        options.sort(key=lambda option: option[:3])
        best: Eviction | None = None
        tries = TRIES
        for cost, _, at, least in options:
            if best is not None and cost >= best.cost:
                break
            found = self._seated_on(rooms[at], least, zone)
            if (found is None or found.victims != least) and tries:
                tries -= 1
                found = self._another_way(rooms[at], zone) or found
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _seated_on(self, room: Room, victims: list[Job], zone: Zone) -> Eviction | None:
        """The asker on this node, in the place of these and of those without whom it cannot be carried there."""
        parts = [(room.node, self._shape.gpus)]
        carried = self._carried(victims, parts, [room]) if self._may_all(victims, []) else None
        if carried is None:
            return None
        found = self._eviction(carried, parts, zone)
        return found if self._accepts(found) else None

    def _another_way(self, room: Room, zone: Zone) -> Eviction | None:
        """The least set on this node cannot go, or is not enough: the cheapest other one."""
        parts = [(room.node, self._shape.gpus)]
        for cost, way in ways_on(room, self._shape.gpus, self._rules()):
            found = Eviction(way, parts, cost, zone.gpu_type)
            if self._may_all(way, []) and self._accepts(found):
                return found
        return None

    # --- one node as the asker could have it --------------------------------------------------------------------

    def _rooms(self, rack: Rack) -> Rooms:
        rooms = self._known.rooms.get(rack)
        if rooms is None:
            rooms = self._known.rooms[rack] = Rooms(self._look(rack))
        return rooms

    def _look(self, rack: Rack) -> list[Room]:
        forbidden = 0
        for provider, mask in rack.by_spot.items():
            if provider not in self._shape.spot:
                forbidden |= mask
        if self._shape.nvlink is NvLink.REQUIRE:
            forbidden |= rack.unlinked
        forbidden |= self._limits.shut(rack, self._question.end_ms, self._question.asker)
        able = self._with_candidates().get(rack, 0)
        for nodes in rack.bucket[1:]:
            able |= nodes
        rooms = []
        for at in bits(able & ~forbidden):
            node = rack.nodes[at]
            if node.open and node.rack is rack:
                room = self._room(node)
                if room is not None:
                    rooms.append(room)
        return rooms

    def _with_candidates(self) -> dict[Rack, int]:
        marked = self._known.with_candidates
        if marked is None:
            marked = self._known.with_candidates = {}
            for name in (*self._candidates, *self._snapshot.stopping, *self._given):
                for part in self._snapshot.jobs[name].held:
                    node = self._snapshot.node(part.node)
                    if node.rack is not None:
                        marked[node.rack] = marked.get(node.rack, 0) | node.bit
        return marked

    def _room(self, node: Node) -> Room | None:
        snapshot, candidates, given = self._snapshot, self._candidates, self._given
        free, sound = node.free_gpus, ~node.faulty
        victims: list[tuple[Job, int]] = []
        for name, mask in node.jobs.items():
            if name in candidates and name not in given:
                victims.append((snapshot.jobs[name], (mask & sound).bit_count()))
            elif name in snapshot.stopping or name in given:
                free += (mask & sound).bit_count()
        bars = self._limits.by_node.get(node.name)
        if bars:
            held = self._kept_out(bars)
            if held > free:
                victims = []  # what the bars close to the asker is more than what is free: nobody is stopped either
            free = max(0, free - held)
        shape = self._shape
        if shape.cpu or shape.memory or shape.scratch:
            free = min(free, self._ranks(node, candidates))
        return Room(node, free, victims) if free or victims else None

    def _kept_out(self, bars: Iterable[Bar]) -> int:
        """How many GPUs bars close to the asker."""
        question = self._question
        return sum(bar.takes for bar in bars if bar.from_ms < question.end_ms and question.asker.heeds(bar))

    def _ranks(self, node: Node, gone: Collection[str]) -> int:
        """How many ranks the node's CPUs, memory and scratch carry without these jobs and those that are stopping."""
        shape, snapshot = self._shape, self._snapshot
        kept = self._limits.kept(node, self._question.asker)
        cpus, memory, scratch = node.cpus_free - kept[0], node.memory_free - kept[1], node.scratch_free - kept[2]
        for name, mask in node.jobs.items():
            if name in gone or name in snapshot.stopping or name in self._given:
                spec, ranks = snapshot.jobs[name].spec, mask.bit_count()
                cpus += ranks * spec.cpu_per_rank
                memory += ranks * spec.memory_per_rank_gb
                scratch += spec.scratch_gb
        most = node.all_mask.bit_count()
        if shape.cpu:
            most = min(most, cpus // shape.cpu)
        if shape.memory:
            most = min(most, memory // shape.memory)
        return max(0, most) if shape.scratch <= scratch else 0

    def _carried(self, victims: list[Job], parts: list[tuple[Node, int]], rooms: list[Room]) -> list[Job] | None:
        """The victims, with all the others on nodes whose CPUs, memory and scratch would not do otherwise; None if they
        would not even so."""
        shape = self._shape
        if not (shape.cpu or shape.memory or shape.scratch):
            return victims
        here = {room.node.name: room for room in rooms}
        chosen = {job.id: job for job in victims}
        for node, gpus in parts:
            if self._ranks(node, chosen) >= gpus:
                continue
            more = [job for job, _ in here[node.name].victims if job.id not in chosen]
            if not self._may_all(more, list(chosen.values())):
                return None
            chosen.update((job.id, job) for job in more)
            if self._ranks(node, chosen) < gpus:
                return None
        return list(chosen.values())

    # --- a set of victims among the rooms of one domain ---------------------------------------------------------

    def _among(self, rooms: list[Room], need: Need, zone: Zone) -> Eviction | None:
        found = self._gradually(rooms, need, zone)
        if found is not None and not self._accepts(found):
            found = None
        if not self._small or (found is not None and not found.victims):
            return found

        def seat(victims: list[Job], rest_in: int | None) -> Eviction | None:
            gone = {job.id: job for job in victims}
            tally = Tally(need, [(room.node, self._carries(room, gone)) for room in rooms])
            parts = tally.parts(rooms[rest_in].node.name if rest_in is not None else None)
            seated = self._eviction(victims, parts, zone)
            return seated if self._accepts(seated) else None

        return Cheapest(rooms, need, self._rules(), None if found is None else found.cost, seat).find() or found

    def _carries(self, room: Room, gone: Mapping[str, Job]) -> int:
        """How many ranks of the asker the room holds once these have left."""
        gpus = room.free + sum(freed for job, freed in room.victims if job.id in gone)
        shape = self._shape
        return min(gpus, self._ranks(room.node, gone)) if shape.cpu or shape.memory or shape.scratch else gpus

    def _gradually(self, rooms: list[Room], need: Need, zone: Zone) -> Eviction | None:
        """Take in victims step by step, let go of those who are not needed: good, and quick in a large domain."""
        tally = Tally(need, [(room.node, room.free) for room in rooms])
        victims = self._grow(rooms, need, tally)
        if victims is None:
            return None
        victims = self._trim(victims, tally)
        parts = tally.parts()
        carried = self._carried(victims, parts, rooms)
        if carried is None:
            return None
        return self._eviction(carried, parts, zone)

    def _eviction(self, victims: list[Job], parts: list[tuple[Node, int]], zone: Zone) -> Eviction:
        return Eviction(victims, parts, sum(map(self._price, victims)), zone.gpu_type)

    def _rules(self) -> Rules:
        return Rules(self._price, self._may_all, self._carries)

    def _price(self, job: Job) -> int:
        prices = self._known.prices
        cost = prices.get(job.id)
        if cost is None:
            cost = prices[job.id] = price(job, self._question.now_ms)
        return cost

    def _grow(self, rooms: list[Room], need: Need, tally: Tally) -> list[Job] | None:
        """Take in victims, the cheapest node (or job, for pieces) first, until the gang fits."""
        if tally.fits():
            return []
        chosen: dict[str, Job] = {}
        for step in self._steps(rooms, need):
            new = [job for job in step if job.id not in chosen]
            if not new or not self._may_all(new, list(chosen.values())):
                continue
            for job in new:
                chosen[job.id] = job
                tally.free(job)
            if tally.fits():
                return list(chosen.values())
        return None

    def _may_all(self, new: Sequence[Job], chosen: list[Job]) -> bool:
        so_far = [*self._question.given, *chosen]
        for job in new:
            if not self._may_stop(job, so_far):
                return False
            so_far.append(job)
        return True

    def _steps(self, rooms: list[Room], need: Need) -> Iterable[list[Job]]:
        """Sets of victims to take in one after the other."""
        if need.pieces:
            jobs = {job.id: job for room in rooms for job, _ in room.victims}
            return [[job] for job in sorted(jobs.values(), key=lambda job: (self._price(job) // job.spec.gpus, job.id))]
        return self._node_by_node(rooms, need)

    def _node_by_node(self, rooms: list[Room], need: Need) -> list[list[Job]]:
        """Per node its victims; a gang's price counts on each of its nodes for the part that it has there.

        First the nodes that can be had whole, cheapest first; then, for the remainder, the least set on each node.
        """
        whole = [room for room in rooms if room.victims and room.most == need.size]
        steps = sorted(
            (sum(self._price(job) * gpus // job.spec.gpus for job, gpus in room.victims), room.node.name, at)
            for at, room in enumerate(whole)
        )
        lists = [[job for job, _ in whole[at].victims] for _, _, at in steps]
        if not need.rest:
            return lists
        missing = max(0, need.whole - sum(1 for room in rooms if room.free == need.size))
        pieces = []
        for room in rooms:
            if room.free < need.rest <= room.most:
                least = least_on(room, need.rest, self._price)
                if least is not None:
                    pieces.append((sum(map(self._price, least)), room.node.name, least))
        pieces.sort(key=lambda piece: piece[:2])
        return lists[:missing] + [least for _, _, least in pieces] + lists[missing:]

    def _trim(self, victims: list[Job], tally: Tally) -> list[Job]:
        """Let go of victims without whom the gang fits as well, the dearest first."""
        kept = dict.fromkeys(job.id for job in victims)
        for job in sorted(victims, key=lambda job: (-self._price(job), job.id)):
            tally.keep(job)
            if tally.fits():
                del kept[job.id]
            else:
                tally.free(job)
        return [job for job in victims if job.id in kept]
