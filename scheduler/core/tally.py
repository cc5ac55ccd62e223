"""Counts whether a gang fits a set of nodes while victims are added to it and taken out again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.job import Job, mask_of
from scheduler.core.topology import Node
from scheduler.core.types import Hint
from scheduler.core.waiting import Shape


@dataclass(frozen=True, slots=True)
class Need:
    """What fits by the shape rule: ``whole`` nodes with ``size`` GPUs free and one more with ``rest``; or ``pieces``:
    ``size`` GPUs anywhere."""

    size: int
    whole: int
    rest: int
    pieces: bool = False

    @classmethod
    def of(cls, shape: Shape, node_size: int) -> Need:
        """On nodes of ``node_size`` GPUs."""
        if shape.gpus <= node_size:
            return cls(shape.gpus, 1, 0)
        if shape.hint is Hint.ANY:
            return cls(shape.gpus, 0, 0, True)
        return cls(node_size, *divmod(shape.gpus, node_size))


class Tally:
    """The free GPUs of each node of a domain, and how many of the nodes are ready."""

    def __init__(self, need: Need, free: Iterable[tuple[Node, int]]) -> None:
        self._need = need
        self._nodes: dict[str, Node] = {}
        self._free: dict[str, int] = {}
        self._ready = 0
        self._partly = 0
        self._total = 0
        for node, gpus in free:
            self._nodes[node.name] = node
            self._free[node.name] = 0
            self._add(node.name, gpus)

    def _add(self, name: str, gpus: int) -> None:
        need = self._need
        was = self._free[name]
        now = self._free[name] = was + gpus
        self._total += gpus
        self._ready += (now >= need.size) - (was >= need.size)
        if need.rest:
            self._partly += (need.rest <= now < need.size) - (need.rest <= was < need.size)

    def free(self, job: Job) -> None:
        """The job goes."""
        self._change(job, 1)

    def keep(self, job: Job) -> None:
        """The job stays after all."""
        self._change(job, -1)

    def _change(self, job: Job, sign: int) -> None:
        for part in job.held:
            node = self._nodes.get(part.node)
            if node is not None:
                self._add(part.node, sign * (mask_of(part.gpus) & ~node.faulty).bit_count())

    def fits(self) -> bool:
        need = self._need
        if need.pieces:
            return self._total >= need.size
        return self._ready >= need.whole and (not need.rest or self._ready > need.whole or self._partly > 0)

    def parts(self, rest_on: str | None = None) -> list[tuple[Node, int]]:
        """Where the gang sits; it has to fit. ``rest_on``: the node for the remainder, if that is settled."""
        if self._need.pieces:
            return self._pieces()
        need = self._need
        ready = sorted(name for name, free in self._free.items() if free >= need.size and name != rest_on)
        if need.whole == 1 and not need.rest:
            tightest = min(ready, key=lambda name: (self._free[name], name))
            return [(self._nodes[tightest], need.size)]
        parts = [(self._nodes[name], need.size) for name in ready[: need.whole]]
        if need.rest:
            used = set(ready[: need.whole])
            name = rest_on or min(
                (name for name, free in self._free.items() if free >= need.rest and name not in used),
                key=lambda name: (self._free[name], name),
            )
            parts.append((self._nodes[name], need.rest))
        return parts

    def _pieces(self) -> list[tuple[Node, int]]:
        parts, left = [], self._need.size
        for name in sorted(self._free, key=lambda name: (-self._free[name], name)):
            take = min(left, self._free[name])
            if take > 0:
                parts.append((self._nodes[name], take))
                left -= take
        return parts
