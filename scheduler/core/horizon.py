"""When GPUs come free, by plan: running jobs at their time limits, stops at the end of their grace.

Each node is a row of moments: the ``k``-th is the earliest at which ``k + 1`` of its GPUs are free for good, what is
reserved on it counted. A gang's planned start is the least moment at which the shape rule holds on those rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Bar, Limits
from scheduler.core.placement import zones_for
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, Pool, Rack, Zone
from scheduler.core.types import Hint, Reservation
from scheduler.core.waiting import Shape

NEVER = 1 << 60

Rows = NDArray[np.int64]


class Horizon:
    """The rows of all pools at one moment, for the planned starts of one plan."""

    def __init__(self, snapshot: Snapshot, limits: Limits, now_ms: int) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._now_ms = now_ms
        self._rows: dict[tuple[Pool, int], tuple[list[Node], Rows]] = {}

    def changed(self) -> None:
        """Something was bound, freed or reserved since: the rows have to be made anew."""
        self._rows.clear()

    def start(self, asker: Asker, shape: Shape, limit_ms: int, allowed: Iterable[str] | None) -> Reservation | None:
        """Where and when the gang could start at the earliest; None if not by waiting."""
        best: Reservation | None = None
        for zones in zones_for(self._snapshot.topology, shape.gpu_type, allowed):
            for zone in zones:
                found = self._in_zone(zone, asker, shape, limit_ms)
                if found is not None and (best is None or found.start_ms < best.start_ms):
                    best = found
        return best

    def _in_zone(self, zone: Zone, asker: Asker, shape: Shape, limit_ms: int) -> Reservation | None:
        best: tuple[int, list[tuple[Node, int]]] | None = None
        for pool in zone.pools.values():
            for nodes, rows in self._tables(pool, asker, shape, limit_ms):
                found = _earliest(nodes, rows, pool.size, shape)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        if best is None:
            return None
        start, parts = best
        return Reservation(
            nodes=tuple(node.name for node, _ in parts),
            start_ms=max(start, self._now_ms),
            job=asker.job,
            gpus=shape.gpus,
            gpu_type=zone.gpu_type,
            takes=tuple(gpus for _, gpus in parts),
        )

    def _tables(self, pool: Pool, asker: Asker, shape: Shape, limit_ms: int) -> Iterable[tuple[list[Node], Rows]]:
        racks = pool.racks
        if shape.hint is Hint.REQUIRE_SAME_RACK and shape.gpus > pool.size:
            return [self._table([rack], asker, shape, limit_ms) for rack in racks]
        return [self._table(racks, asker, shape, limit_ms)]

    def _table(self, racks: Sequence[Rack], asker: Asker, shape: Shape, limit_ms: int) -> tuple[list[Node], Rows]:
        nodes = [node for rack in racks for node in self._usable(rack, shape)]
        size = racks[0].pool.size
        rows = np.full((len(nodes), size), NEVER, dtype=np.int64)
        for at, node in enumerate(nodes):
            row = self.row(node, asker, shape, limit_ms)
            rows[at, : len(row)] = row
        return nodes, rows

    def _usable(self, rack: Rack, shape: Shape) -> Iterable[Node]:
        forbidden = 0
        for provider, mask in rack.by_spot.items():
            if provider not in shape.spot:
                forbidden |= mask
        for node in rack.nodes:
            if node.open and not node.bit & forbidden and node.rack is rack and node.name not in shape.avoid:
                yield node

    def row(self, node: Node, asker: Asker, shape: Shape, limit_ms: int) -> list[int]:
        """The moments at which 1, 2, … GPUs of the node can be had for ``limit_ms``, ascending."""
        now = self._now_ms
        snapshot = self._snapshot
        times = [now] * node.free_gpus
        for name, mask in node.jobs.items():
            job = snapshot.jobs[name]
            end = max(now, planned_end_ms(job.spec, job.decision))
            times += [end] * (mask & ~node.faulty).bit_count()
        times.sort()
        bars = [bar for bar in self._limits.by_node.get(node.name, ()) if asker.heeds(bar)]
        for bar in sorted(bars, key=lambda bar: bar.from_ms):
            times = self._behind(times, bar, limit_ms)
        if shape.cpu or shape.memory or shape.scratch:
            times = self._carried(node, times, shape)
        return times

    def _behind(self, times: list[int], bar: Bar, limit_ms: int) -> list[int]:
        """Move those GPUs of a row that a bar takes to its end, as far as a job would run into it."""
        end = bar.to_ms
        if end is None:
            holder = self._snapshot.jobs.get(bar.job) if bar.job is not None else None
            left = remaining_ms(holder.spec, holder.decision) if holder is not None else NEVER
            end = max(bar.from_ms, self._now_ms) + left
        if bar.to_ms is not None and all(at + limit_ms <= bar.from_ms for at in times):
            return times
        begin = max(bar.from_ms, self._now_ms)
        ready = sum(1 for at in times if at <= begin)
        first = max(0, ready - bar.takes)
        moved = [max(at, end) for at in times[first : first + bar.takes]]
        return sorted(times[:first] + moved + times[first + bar.takes :])

    def _carried(self, node: Node, times: list[int], shape: Shape) -> list[int]:
        """Delay a row until the node's CPUs, memory and scratch carry as many ranks, too."""
        assert node.intent is not None
        cpus, memory, scratch = node.cpus_free, node.memory_free, node.scratch_free
        ends: list[tuple[int, int, int, int]] = []
        for name, mask in node.jobs.items():
            job = self._snapshot.jobs[name]
            ranks, spec = mask.bit_count(), job.spec
            end = max(self._now_ms, planned_end_ms(spec, job.decision))
            ends.append((end, ranks * spec.cpu_per_rank, ranks * spec.memory_per_rank_gb, spec.scratch_gb))
        ends.sort()
        ends.insert(0, (self._now_ms, 0, 0, 0))
        carried: list[int] = []
        for end, more_cpus, more_memory, more_scratch in ends:
            cpus, memory, scratch = cpus + more_cpus, memory + more_memory, scratch + more_scratch
            ranks = len(times) if scratch >= shape.scratch else 0
            if shape.cpu:
                ranks = min(ranks, cpus // shape.cpu)
            if shape.memory:
                ranks = min(ranks, memory // shape.memory)
            carried += [end] * (ranks - len(carried))
        return [max(one, other) for one, other in zip(times, carried, strict=False)]


def _earliest(nodes: list[Node], rows: Rows, size: int, shape: Shape) -> tuple[int, list[tuple[Node, int]]] | None:
    """The earliest moment at which the shape rule holds on ``rows``, and on which nodes."""
    if not nodes:
        return None
    gpus = shape.gpus
    if gpus <= size:
        column = rows[:, gpus - 1]
        at = int(column.argmin())
        if column[at] < NEVER:
            return int(column[at]), [(nodes[at], gpus)]
        return None if shape.hint is not Hint.ANY else _scattered(nodes, rows, gpus)
    if shape.hint is Hint.REQUIRE_SAME_HOST:
        return None
    if shape.hint is Hint.ANY:
        return _scattered(nodes, rows, gpus)
    return _in_whole_nodes(nodes, rows, size, gpus)


def _in_whole_nodes(nodes: list[Node], rows: Rows, size: int, gpus: int) -> tuple[int, list[tuple[Node, int]]] | None:
    whole, rest = divmod(gpus, size)
    column = rows[:, size - 1]
    if len(nodes) < whole + (1 if rest else 0):
        return None
    start = int(np.partition(column, whole - 1)[whole - 1])
    if rest:
        start = _with_rest(rows, column, start, whole, rest)
    if start >= NEVER:
        return None
    chosen = _choose(nodes, column, start, whole)
    parts = [(nodes[at], size) for at in chosen]
    if rest:
        others = np.ones(len(nodes), dtype=bool)
        others[chosen] = False
        ready = np.flatnonzero(others & (rows[:, rest - 1] <= start))
        at = int(ready[np.argmax(column[ready])])
        parts.append((nodes[at], rest))
    return start, parts


def _with_rest(rows: Rows, column: Rows, start: int, whole: int, rest: int) -> int:
    """The earliest moment from ``start`` on at which a further node has the remainder free."""
    moments = np.unique(np.concatenate([rows[:, rest - 1], column, [start]]))
    for moment in moments[np.searchsorted(moments, start) :]:
        if int((column <= moment).sum()) < whole:
            continue
        if int((rows[:, rest - 1] <= moment).sum()) > whole or (
            int((column <= moment).sum()) >= whole
            and int(((rows[:, rest - 1] <= moment) & (column > moment)).sum()) > 0
        ):
            return int(moment)
    return NEVER


def _choose(nodes: list[Node], column: Rows, start: int, count: int) -> list[int]:
    """``count`` nodes that are free by ``start``: of few racks, and of those the ones that come free last."""
    ready = np.flatnonzero(column <= start)
    by_rack: dict[Rack, list[int]] = {}
    for at in ready:
        rack = nodes[int(at)].rack
        assert rack is not None
        by_rack.setdefault(rack, []).append(int(at))
    chosen: list[int] = []
    left = count
    lists = sorted(by_rack.values(), key=len)
    while left > 0:
        fitting = [members for members in lists if len(members) >= left]
        members = fitting[0] if fitting else lists[-1]
        lists.remove(members)
        members.sort(key=lambda at: (-int(column[at]), at))
        chosen += members[:left]
        left = count - len(chosen)
    return chosen


def _scattered(nodes: list[Node], rows: Rows, gpus: int) -> tuple[int, list[tuple[Node, int]]] | None:
    """The earliest moment at which enough GPUs are free anywhere."""
    flat = np.sort(rows, axis=None)
    if len(flat) < gpus or flat[gpus - 1] >= NEVER:
        return None
    start = int(flat[gpus - 1])
    counts = (rows <= start).sum(axis=1)
    parts: list[tuple[Node, int]] = []
    left = gpus
    for at in sorted(range(len(nodes)), key=lambda at: (-int(counts[at]), at)):
        take = min(left, int(counts[at]))
        if take > 0:
            parts.append((nodes[at], take))
            left -= take
    return start, parts
