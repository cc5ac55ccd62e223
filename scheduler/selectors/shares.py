"""The quota tree with what is on it now, from the picture; no query."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.balance import Line, balance, usable
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class TypeShares:
    """One GPU type: a line for each node, parents first; ``usable`` GPUs are held or free on hosts that take work."""

    gpu_type: str
    total: int
    usable: int
    lines: tuple[Line, ...]

    def line(self, node: str) -> Line | None:
        return next((line for line in self.lines if line.node == node), None)

    def below(self, parent: str | None) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.parent == parent)


@dataclass(frozen=True, slots=True)
class Shares:
    """``version`` is that of the tree that the planner goes by, which follows the one in force within moments."""

    revision: int
    version: int
    types: dict[str, TypeShares]


def shares(picture: Picture) -> Shares:
    """By GPU type, the most numerous first.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        total = snapshot.topology.total
        kinds = sorted(total, key=lambda kind: (-total[kind], kind))
        found = {
            kind: TypeShares(kind, total[kind], usable(snapshot, kind), tuple(balance(snapshot, kind)))
            for kind in kinds
        }
        return Shares(picture.revision, snapshot.quota.tree.version, found)
