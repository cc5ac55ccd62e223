"""The earliest planned start of a gang, on the rows of when GPUs come free, with every promise made so far counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.layout import Bar, Layout
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import zones_for
from scheduler.core.rows import NEVER, Matrix, row_of
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, Pool, Rack, Zone, bits
from scheduler.core.types import Hint, Reservation
from scheduler.core.waiting import Relaxed, Shape, suits

Spot = tuple[int, list[tuple[Node, int]]]
"""A moment, and nodes with how many GPUs of each."""


class Horizon:
    """Answers planned starts during one plan; ``limits`` holds all promises. It has to be told what changed."""

    def __init__(self, snapshot: Snapshot, limits: Limits, now_ms: int) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._now_ms = now_ms
        self._barred: dict[Pool, Matrix] = {}

    def changed(self) -> None:
        """Promises, or what runs, have changed since the last answer."""
        self._barred.clear()

    def start(
        self, asker: Asker, shape: Shape, limit_ms: int, allowed: Iterable[str] | None, in_one_rack: bool = False
    ) -> Reservation | None:
        """Where and when the gang could start at the earliest; None if not by waiting.

        ``in_one_rack``: a gang that prefers one rack is planned in one, if any holds it.
        """
        if in_one_rack and shape.hint is Hint.PREFER_SAME_RACK:
            found = self._start(
                asker, Relaxed.of(shape, hint=Hint.REQUIRE_SAME_RACK, avoid=shape.avoid), limit_ms, allowed
            )
            if found is not None:
                return found
        return self._start(asker, shape, limit_ms, allowed)

    def _start(self, asker: Asker, shape: Shape, limit_ms: int, allowed: Iterable[str] | None) -> Reservation | None:
        best: tuple[int, list[tuple[Node, int]], str] | None = None
        for zones in zones_for(self._snapshot.topology, shape.gpu_type, allowed):
            for zone in zones:
                found = self._in_zone(zone, asker, shape, limit_ms)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (*found, zone.gpu_type)
        if best is None:
            return None
        start, parts, gpu_type = best
        return Reservation(
            nodes=tuple(node.name for node, _ in parts),
            start_ms=max(start, self._now_ms),
            job=asker.job,
            gpus=shape.gpus,
            gpu_type=gpu_type,
            takes=tuple(gpus for _, gpus in parts),
        )

    def _in_zone(self, zone: Zone, asker: Asker, shape: Shape, limit_ms: int) -> Spot | None:
        best: Spot | None = None
        for pool in zone.pools.values():
            nodes, rows = self._table(pool, asker, shape, limit_ms)
            if shape.hint is Hint.REQUIRE_SAME_RACK and shape.gpus > pool.size:
                spans = self._snapshot.rows.spans(pool)
                options = [_earliest(nodes[span], rows[span], pool.size, shape) for span in spans]
            else:
                options = [_earliest(nodes, rows, pool.size, shape)]
            for found in options:
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        return best

    # --- rows with bars -----------------------------------------------------------------------------------------

    def _table(self, pool: Pool, asker: Asker, shape: Shape, limit_ms: int) -> tuple[list[Node], Matrix]:
        """The pool's rows as the asker has to see them."""
        snapshot = self._snapshot
        snapshot.rows.refresh(snapshot.jobs)
        nodes, plain = snapshot.rows.table(pool, snapshot.jobs)
        barred = self._barred.get(pool)
        if barred is None:
            barred = self._barred[pool] = self._with_bars(pool, plain)
        rows = barred.copy()
        own = self._limits.whole.get(asker.job)
        if own is not None:
            self._open_own(rows, plain, pool, own[1])
            for node in self._shared(own[1], pool):
                self._write(rows, node, self.row(node, asker, shape, limit_ms))
        for name, bars in self._limits.by_node.items():
            node = snapshot.nodes[name]
            if node.rack is None or node.rack.pool is not pool:
                continue
            if any(bar.job == asker.job or bar.to_ms is not None for bar in bars):
                self._write(rows, node, self.row(node, asker, shape, limit_ms))
        if shape.cpu or shape.memory or shape.scratch:
            for node in nodes:
                self._write(rows, node, self.row(node, asker, shape, limit_ms))
        choice = any(rack.by_spot or rack.unlinked for rack in pool.racks)
        return nodes, self._without_unfit(nodes, rows, shape, choice)

    def _open_own(self, rows: Matrix, plain: Matrix, pool: Pool, own: Layout) -> None:
        """Show the asker its own nodes as they are without its promise."""
        at = own.rows(pool)
        if len(at):
            rows[at] = np.maximum(plain[at], self._now_ms)

    def _shared(self, own: Layout, pool: Pool) -> Iterable[Node]:
        """Those nodes of a promise on which others have a bar, too."""
        for rack, mask in own.racks:
            if rack.pool is not pool:
                continue
            others = self._limits.masks.get(rack, 0)
            for _, nodes, bar in self._limits.closed.get(rack, ()):
                if bar.job != own.held.job:
                    others |= nodes
            for at in bits(mask & others):
                yield rack.nodes[at]

    def _with_bars(self, pool: Pool, plain: Matrix) -> Matrix:
        """The rows with every promise on them that lasts as long as its owner may run."""
        rows = np.maximum(plain, self._now_ms)
        for bar, layout in self._limits.whole.values():
            at = layout.rows(pool)
            if len(at):
                rows[at] = np.maximum(rows[at], min(self._end_of(bar), NEVER))
        for name, bars in self._limits.by_node.items():
            node = self._snapshot.nodes[name]
            if node.rack is not None and node.rack.pool is pool:
                times = rows[node.row].tolist()
                for bar in sorted(bars, key=_begin):
                    if bar.to_ms is None:
                        times = self._behind(times, bar, NEVER)
                self._write(rows, node, times)
        return rows

    def _end_of(self, bar: Bar) -> int:
        """When the owner of a promise will be done at the latest."""
        holder = self._snapshot.jobs.get(bar.job) if bar.job is not None else None
        left = remaining_ms(holder.spec, holder.decision) if holder is not None else NEVER
        return max(bar.from_ms, self._now_ms) + left

    @staticmethod
    def _write(matrix: Matrix, node: Node, times: list[int]) -> None:
        matrix[node.row] = times + [NEVER] * (matrix.shape[1] - len(times))

    @staticmethod
    def _without_unfit(nodes: list[Node], rows: Matrix, shape: Shape, choice: bool) -> Matrix:
        """Rule out what the asker avoids, and the hosts of a kind that it may not use where there is a ``choice``."""
        if shape.avoid or choice:
            for node in nodes:
                if node.name in shape.avoid or (node.intent is not None and not suits(node.intent, shape)):
                    rows[node.row] = NEVER
        return rows

    def row(self, node: Node, asker: Asker, shape: Shape, limit_ms: int) -> list[int]:
        """The moments at which 1, 2, … GPUs of the node can be had for ``limit_ms``, ascending."""
        times = [max(at, self._now_ms) for at in row_of(node, self._snapshot.jobs)]
        bars = [bar for bar in self._limits.on(node) if _heeds(asker, bar)]
        for bar in sorted(bars, key=_begin):
            times = self._behind(times, bar, limit_ms)
        if shape.cpu or shape.memory or shape.scratch:
            times = self._carried(node, times, shape)
        return times

    def _behind(self, times: list[int], bar: Bar, limit_ms: int) -> list[int]:
        """Move those GPUs of a row that a bar takes to its end, as far as a job would run into it."""
        if all(at + limit_ms <= bar.from_ms for at in times):
            return times
        end = bar.to_ms if bar.to_ms is not None else self._end_of(bar)
        begin = max(bar.from_ms, self._now_ms)
        ready = sum(1 for at in times if at <= begin)
        first = max(0, ready - bar.takes)
        moved = [min(max(at, end), NEVER) for at in times[first : first + bar.takes]]
        return sorted(times[:first] + moved + times[first + bar.takes :])

    def _carried(self, node: Node, times: list[int], shape: Shape) -> list[int]:
        """Delay a row until the node's CPUs, memory and scratch carry as many ranks, too."""
        cpus, memory, scratch = node.cpus_free, node.memory_free, node.scratch_free
        ends: list[tuple[int, int, int, int]] = [(self._now_ms, 0, 0, 0)]
        for name, mask in node.jobs.items():
            job = self._snapshot.jobs[name]
            ranks, spec = mask.bit_count(), job.spec
            end = max(self._now_ms, planned_end_ms(spec, job.decision))
            ends.append((end, ranks * spec.cpu_per_rank, ranks * spec.memory_per_rank_gb, spec.scratch_gb))
        carried: list[int] = []
        for end, more_cpus, more_memory, more_scratch in sorted(ends):
            cpus, memory, scratch = cpus + more_cpus, memory + more_memory, scratch + more_scratch
            ranks = len(times) if scratch >= shape.scratch else 0
            if shape.cpu:
                ranks = min(ranks, cpus // shape.cpu)
            if shape.memory:
                ranks = min(ranks, memory // shape.memory)
            carried += [end] * (ranks - len(carried))
        return [max(one, other) for one, other in zip(times, carried, strict=False)]


def _begin(bar: Bar) -> int:
    return bar.from_ms


def _heeds(asker: Asker, bar: Bar) -> bool:
    """A plan is made around every promise but the asker's own."""
    if bar.job is not None:
        return bar.job != asker.job
    return bar.team is None or bar.team != asker.team


def _earliest(nodes: list[Node], rows: Matrix, size: int, shape: Shape) -> Spot | None:
    """The earliest moment at which the shape rule holds on ``rows``, and on which nodes."""
    if not nodes:
        return None
    gpus = shape.gpus
    if gpus <= size:
        column = rows[:, gpus - 1]
        at = int(column.argmin())
        if column[at] < NEVER:
            return int(column[at]), [(nodes[at], gpus)]
        return _scattered(nodes, rows, gpus) if shape.hint is Hint.ANY else None
    if shape.hint is Hint.REQUIRE_SAME_HOST:
        return None
    if shape.hint is Hint.ANY:
        return _scattered(nodes, rows, gpus)
    return _in_whole_nodes(nodes, rows, size, gpus)


def _in_whole_nodes(nodes: list[Node], rows: Matrix, size: int, gpus: int) -> Spot | None:
    whole, rest = divmod(gpus, size)
    column = rows[:, size - 1]
    if len(nodes) < whole + (1 if rest else 0):
        return None
    start = int(np.partition(column, whole - 1)[whole - 1])
    if rest:
        start = _with_rest(rows[:, rest - 1], column, start, whole)
    if start >= NEVER:
        return None
    chosen = _choose(nodes, column, start, whole)
    parts = [(nodes[at], size) for at in chosen]
    if rest:
        ready = rows[:, rest - 1] <= start
        ready[chosen] = False
        others = np.flatnonzero(ready)
        at = int(others[np.argmax(column[others])])
        parts.append((nodes[at], rest))
    return start, parts


def _with_rest(partial: NDArray[np.int64], column: NDArray[np.int64], start: int, whole: int) -> int:
    """The earliest moment from ``start`` on at which one node more has the remainder free."""
    for moment in np.unique(np.concatenate([partial, column, [start]])):
        if moment >= start and (column <= moment).sum() >= whole and (partial <= moment).sum() > whole:
            return int(moment)
    return NEVER


def _choose(nodes: list[Node], column: NDArray[np.int64], start: int, count: int) -> list[int]:
    """``count`` nodes that are free by ``start``: of few racks, and of those the ones that come free last."""
    by_rack: dict[Rack, list[int]] = {}
    for at in np.flatnonzero(column <= start).tolist():
        rack = nodes[at].rack
        assert rack is not None
        by_rack.setdefault(rack, []).append(at)
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


def _scattered(nodes: Sequence[Node], rows: Matrix, gpus: int) -> Spot | None:
    """The earliest moment at which enough GPUs are free anywhere."""
    flat = np.sort(rows, axis=None)
    if len(flat) < gpus or flat[gpus - 1] >= NEVER:
        return None
    start = int(flat[gpus - 1])
    counts = (rows <= start).sum(axis=1).tolist()
    parts: list[tuple[Node, int]] = []
    left = gpus
    for at in sorted(range(len(nodes)), key=lambda at: (-counts[at], at)):
        take = min(left, counts[at])
        if take > 0:
            parts.append((nodes[at], take))
            left -= take
    return start, parts
