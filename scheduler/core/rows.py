"""When each node's GPUs come free, kept from plan to plan: a row of moments a node, a matrix a pool.

Row ``k`` holds, ascending, when 1, 2, … of the node's GPUs will be free if nothing new starts: 0 for what is free now,
the planned end of its job for what is held, ``NEVER`` for what is broken and for nodes that take no work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.topology import Node, Pool

if TYPE_CHECKING:
    from scheduler.core.job import Job

NEVER = 1 << 60
"""Later than any planned end; fits 64 bits with room to add to."""

Matrix = NDArray[np.int64]


def row_of(node: Node, jobs: Mapping[str, Job]) -> list[int]:
    """The moments of one node, without the broken GPUs; empty for one that takes no work."""
    if not node.open:
        return []
    times = [0] * node.free_gpus
    for name, mask in node.jobs.items():
        job = jobs[name]
        end = min(planned_end_ms(job.spec, job.decision), NEVER)
        times += [end] * (mask & ~node.faulty).bit_count()
    times.sort()
    return times


class Rows:
    """The matrices of all pools, brought up to date when one is asked for."""

    def __init__(self) -> None:
        self.stale: set[Node] = set()
        self._tables: dict[Pool, tuple[list[Node], Matrix]] = {}
        self._spans: dict[Pool, list[slice]] = {}

    def forget(self) -> None:
        """The topology has changed: build everything anew."""
        self._tables.clear()
        self._spans.clear()

    def refresh(self, jobs: Mapping[str, Job]) -> None:
        """Bring the rows of the nodes that changed up to date."""
        for node in self.stale:
            rack = node.rack
            table = self._tables.get(rack.pool) if rack is not None else None
            if table is not None and node.row < len(table[0]) and table[0][node.row] is node:
                self._write(table[1], node, jobs)
        self.stale.clear()

    def table(self, pool: Pool, jobs: Mapping[str, Job]) -> tuple[list[Node], Matrix]:
        """The pool's nodes and their rows, in the same order. Not to be written to."""
        table = self._tables.get(pool)
        if table is None:
            nodes = [node for rack in pool.racks for node in rack.nodes if node.rack is rack]
            matrix = np.full((len(nodes), pool.size), NEVER, dtype=np.int64)
            for at, node in enumerate(nodes):
                node.row = at
                self._write(matrix, node, jobs)
            table = self._tables[pool] = (nodes, matrix)
        return table

    def spans(self, pool: Pool) -> list[slice]:
        """Where the rows of each rack lie in the pool's table."""
        spans = self._spans.get(pool)
        if spans is None:
            spans, end = [], 0
            for rack in pool.racks:
                begin, end = end, end + sum(1 for node in rack.nodes if node.rack is rack)
                spans.append(slice(begin, end))
            self._spans[pool] = spans
        return spans

    @staticmethod
    def _write(matrix: Matrix, node: Node, jobs: Mapping[str, Job]) -> None:
        times = row_of(node, jobs)
        matrix[node.row] = times + [NEVER] * (matrix.shape[1] - len(times))
