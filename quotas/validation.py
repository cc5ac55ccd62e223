"""What a quota tree must be like before it may come into force. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from scheduler.core.types import QuotaNode, QuotaTree

SHARE_STEPS = 1_000_000
"""Shares are kept to a millionth."""
MOST_SHARE = 1_000_000 - 1
MOST_GPUS = 10_000_000
PRIORITIES = range(4)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with which node; ``field`` is empty where it is about the node as a whole."""

    node: str
    field: str
    reason: str


class InvalidTree(ValueError):
    """The tree may not come into force."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{one.node}: {one.field} {one.reason}" for one in problems))
        self.problems = problems


def problems(tree: QuotaTree, gpu_types: Collection[str] | None = None) -> list[Problem]:
    """Everything wrong with the tree. ``gpu_types`` are those that floors and ceilings may name; None: any."""
    found = [problem for node in tree.nodes for problem in _of_node(node, gpu_types)]
    found += _of_shape(tree)
    # Only numbers of a tree can be added up.
    return found or list(_of_floors(tree))


def _of_node(node: QuotaNode, gpu_types: Collection[str] | None) -> Iterator[Problem]:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", node.name):
        yield Problem(node.name, "name", "must be 1 to 64 letters, digits, - or _")
    if not 0 <= node.share <= MOST_SHARE or node.share * SHARE_STEPS % 1:
        yield Problem(node.name, "share", f"must be from 0 to {MOST_SHARE}, with at most six decimals")
    for field, gpus in (("floor", node.floor), ("ceiling", node.ceiling)):
        for kind, count in gpus.items():
            if gpu_types is not None and kind not in gpu_types:
                yield Problem(node.name, f"{field}.{kind}", f"there is no GPU type {kind}: {', '.join(gpu_types)}")
            if not _is_count(count):
                yield Problem(node.name, f"{field}.{kind}", f"must be a whole number from 0 to {MOST_GPUS}")
    for kind in sorted(node.floor.keys() & node.ceiling.keys()):
        floor, ceiling = node.floor[kind], node.ceiling[kind]
        if _is_count(floor) and _is_count(ceiling) and floor > ceiling:
            yield Problem(node.name, f"floor.{kind}", f"{floor} is above the ceiling, {ceiling}")
    if node.min_runtime_ms < 0 or node.min_runtime_ms % 1000:
        yield Problem(node.name, "min_runtime", "must be whole seconds, not negative")
    if node.reclaim not in ("share", "floor"):
        yield Problem(node.name, "reclaim", "must be share or floor")
    for priority, count in node.class_caps.items():
        if priority not in PRIORITIES or not _is_count(count):
            yield Problem(node.name, f"class_caps.P{priority}", "must bound one of P0 to P3 by a number of GPUs")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_GPUS


def _of_shape(tree: QuotaTree) -> Iterator[Problem]:
    """Names are unique and parents come before their children, which rules out a cycle."""
    seen: set[str] = set()
    names = {node.name for node in tree.nodes}
    for node in tree.nodes:
        if node.name in seen:
            yield Problem(node.name, "name", "is there twice")
        if node.parent is not None and node.parent not in names:
            yield Problem(node.name, "parent", f"there is no node {node.parent}")
        elif node.parent is not None and node.parent not in seen:
            yield Problem(node.name, "parent", f"{node.parent} is below it, is it itself, or comes after it")
        seen.add(node.name)


def _of_floors(tree: QuotaTree) -> Iterator[Problem]:
    """What the children are guaranteed together fits under the ceiling above them."""
    promised: dict[str, dict[str, int]] = {}
    for node in reversed(tree.nodes):
        below = promised.get(node.name, {})
        mine = {kind: max(node.floor.get(kind, 0), below.get(kind, 0)) for kind in node.floor.keys() | below.keys()}
        for kind, gpus in sorted(below.items()):
            if gpus > node.ceiling.get(kind, gpus):
                reason = f"{node.ceiling[kind]} is below the floors under it, {gpus} in all"
                yield Problem(node.name, f"ceiling.{kind}", reason)
        if node.parent is not None:
            above = promised.setdefault(node.parent, {})
            for kind, gpus in mine.items():
                above[kind] = above.get(kind, 0) + gpus
