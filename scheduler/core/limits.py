"""What keeps a free GPU from being used beyond some moment: reservations, maintenance windows, GPUs promised to a team.

A *bar* closes some GPUs of a node from a moment on. A job that would end before it is let through.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.job import Job
from scheduler.core.layout import Bar, Layout
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, Pool, Rack, bits
from scheduler.core.types import JobSpec, Reason, Reservation


class Limits:
    """All bars: those on whole nodes by rack, as (moment, bitset of nodes, bar), and by owner; the others by node, with
    the bitset of such nodes by rack. ``timed``: some close at a set time.
    ``guarded``: some keep what stops make free.
    """

    def __init__(self, snapshot: Snapshot, now_ms: int) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms
        self.by_node: dict[str, list[Bar]] = {}
        self.masks: dict[Rack, int] = {}
        self.closed: dict[Rack, list[tuple[int, int, Bar]]] = {}
        self.whole: dict[str, tuple[Bar, Layout]] = {}
        self.timed = False
        self._kept_free: dict[str, list[Rack]] = {}
        self.guarded = False
        self._demands: dict[str, list[tuple[Bar, int, JobSpec]]] = {}
        self._add_windows()

    def _add_windows(self) -> None:
        for name in sorted(self._snapshot.windowed):
            node = self._snapshot.nodes[name]
            assert node.intent is not None
            for window in node.intent.maintenance:
                if window.end_ms > self._now_ms:
                    bar = Bar(window.start_ms, window.end_ms, node.intent.gpus, Reason.MAINTENANCE)
                    self._bar(node, bar)

    def add(self, held: Reservation) -> None:
        """Close what a reservation holds."""
        job = self._snapshot.jobs.get(held.job) if held.job is not None else None
        if job is None and held.team is None:
            return
        layout = self._snapshot.layouts.of(held, self._snapshot.nodes)
        if job is None:
            for node, takes in layout.partial:
                self._bar(node, Bar(held.start_ms, held.end_ms, takes, Reason.RESERVED, None, held.team))
            return
        self.guarded = self.guarded or held.firm
        closing = layout.bars(job.spec.team, job.priority)
        spec = job.spec
        for node, bar in closing.partial:
            self._bar(node, bar)
            if held.firm and (spec.cpu_per_rank or spec.memory_per_rank_gb or spec.scratch_gb):
                self._demands.setdefault(node.name, []).append((bar, bar.takes, spec))
        if closing.whole is not None:
            self.whole[job.id] = (closing.whole, layout)
            closed = self.closed
            for rack, entry in closing.racks:
                entries = closed.get(rack)
                if entries is None:
                    closed[rack] = [entry]
                else:
                    entries.append(entry)

    def keep_free(self, pool: Pool, job: Job) -> None:
        """Keep the whole nodes of the pool that are free now for a gang with a promise there."""
        why = Reason.HELD_FOR_LARGER_JOB
        bar = Bar(0, None, pool.size, why, job.id, job.spec.team, job.priority, planned=True, gathered=True)
        racks = [pool.racks[at] for at in bits(pool.having[pool.size])]
        for rack in racks:
            self.closed.setdefault(rack, []).append((bar.from_ms, rack.bucket[pool.size], bar))
        self._kept_free[job.id] = racks

    def remove(self, held: Reservation) -> None:
        """Open again what a reservation held."""
        layout = self._snapshot.layouts.of(held, self._snapshot.nodes)
        for node, _ in layout.partial:
            if held.job is not None and node.name in self._demands:
                self._demands[node.name] = [one for one in self._demands[node.name] if one[0].job != held.job]
            bars = self.by_node.get(node.name)
            if bars is None:
                continue
            bars[:] = [bar for bar in bars if bar.job != held.job or (held.job is None and bar.team != held.team)]
            if not bars and node.rack is not None:
                del self.by_node[node.name]
                self.masks[node.rack] &= ~node.bit
        if held.job is not None and self.whole.pop(held.job, None) is not None:
            racks = {rack for rack, _ in layout.racks} | set(self._kept_free.pop(held.job, ()))
            for rack in racks:
                entries = [entry for entry in self.closed[rack] if entry[2].job != held.job]
                if entries:
                    self.closed[rack] = entries
                else:
                    del self.closed[rack]

    def left(self, node: Node, asker: Asker) -> tuple[int, int, int]:
        """CPUs, memory and scratch of a node that are free now and not kept for those for whom somebody is stopped
        there: what the ones who are being stopped hold will be there for them, too."""
        free = node.cpus_free, node.memory_free, node.scratch_free
        if not self._demands.get(node.name):
            return free
        cpus, memory, scratch = free
        for name in self._snapshot.stopping & node.jobs.keys():
            going, ranks = self._snapshot.jobs[name].spec, node.jobs[name].bit_count()
            cpus += ranks * going.cpu_per_rank
            memory += ranks * going.memory_per_rank_gb
            scratch += going.scratch_gb
        kept = self.kept(node, asker)
        return min(cpus - kept[0], free[0]), min(memory - kept[1], free[1]), min(scratch - kept[2], free[2])

    def kept(self, node: Node, asker: Asker) -> tuple[int, int, int]:
        """CPUs, memory and scratch of a node that are kept from the asker for those for whom somebody is stopped."""
        heeded = [(takes, spec) for bar, takes, spec in self._demands.get(node.name, ()) if asker.heeds(bar)]
        return (
            sum(takes * spec.cpu_per_rank for takes, spec in heeded),
            sum(takes * spec.memory_per_rank_gb for takes, spec in heeded),
            sum(spec.scratch_gb for _, spec in heeded),
        )

    def shut(self, rack: Rack, end_ms: int, asker: Asker) -> int:
        """The nodes of the rack that are closed whole to a job that ends at ``end_ms``."""
        mask = 0
        for start, nodes, bar in self.closed.get(rack, ()):
            if start < end_ms and asker.heeds(bar):
                mask |= nodes
        return mask

    def on(self, node: Node) -> list[Bar]:
        """All bars of one node."""
        bars = list(self.by_node.get(node.name, ()))
        if node.rack is not None:
            bars += [bar for _, mask, bar in self.closed.get(node.rack, ()) if mask & node.bit]
        return bars

    def _bar(self, node: Node, bar: Bar) -> None:
        self.timed = self.timed or bar.job is None
        self.by_node.setdefault(node.name, []).append(bar)
        if node.rack is not None:
            self.masks[node.rack] = self.masks.get(node.rack, 0) | node.bit

    def against(self, node: Node, gpus: int, end_ms: int, asker: Asker) -> Bar | None:
        """The first bar that forbids a job of ``gpus`` here that ends at ``end_ms`` by plan; None if none does."""
        bars = self.by_node.get(node.name, ())
        for bar in bars:
            if bar.from_ms >= end_ms or not asker.heeds(bar):
                continue
            if self._spare(node, bar, bars, asker) < gpus:
                return bar
        return None

    def _spare(self, node: Node, bar: Bar, bars: list[Bar] | tuple[()], asker: Asker) -> int:
        """GPUs of the node that nobody has planned to use when ``bar`` begins (now, if it has begun)."""
        at = max(bar.from_ms, self._now_ms)
        spare = (node.all_mask & ~node.faulty).bit_count()
        for other in bars:
            if other.from_ms <= at and (other.to_ms is None or other.to_ms > at) and asker.heeds(other):
                spare -= other.takes
        for name, mask in node.jobs.items():
            if spare <= 0:
                break
            job = self._snapshot.jobs[name]
            if max(planned_end_ms(job.spec, job.decision), self._now_ms + 1) > at:
                spare -= mask.bit_count()
        return spare


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for room, which kinds of bars it does not heed, and whether it takes merely planned places.

    ``within_floor``: its team would not hold more than its floor with it.
    """

    job: str
    team: str
    priority: int
    ignore: frozenset[Reason] = frozenset()
    over_plans: bool = False
    within_floor: bool = False

    def heeds(self, bar: Bar) -> bool:
        if bar.why in self.ignore:
            return False
        if bar.job is None:
            return bar.team is None or bar.team != self.team
        if bar.job == self.job:
            return False
        if bar.gathered and self.within_floor:
            return False
        if bar.planned:
            return not (self.over_plans or self.priority < bar.priority)
        return not self.outranks(bar.team, bar.priority)

    def outranks(self, team: str | None, priority: int) -> bool:
        """Whether it could stop a running job of this team and class. What stops made free it may take by that right
        alone: else the one that was stopped would be back before the one it was stopped for."""
        return self.priority < priority and (self.priority == 0 or self.team == team)
