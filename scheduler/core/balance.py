"""The quota tree with what is on it: what each node is owed, holds, waits for and has borrowed, by GPU type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from scheduler.core.entitlement import entitlements
from scheduler.core.quota import Branch
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, QuotaTree


@dataclass(frozen=True, slots=True)
class Line:
    """One node of the tree and one GPU type, in GPUs.

    ``part`` is the node's share among its siblings' (0 to 1). ``own`` is what it may call its own by what everybody
    wants now, ``assured`` what it could if everybody wanted everything. ``ceiling`` None: there is none. ``waiting``
    counts what its waiting jobs ask for; one that takes any type counts with each. ``closed``: a team that the tree no
    longer names while jobs of it run.
    """

    node: str
    parent: str | None
    depth: int
    team: bool
    gpu_type: str
    share: Fraction
    part: Fraction
    floor: int
    ceiling: int | None
    held: int
    waiting: int
    own: int
    assured: int
    closed: bool = False

    @property
    def right(self) -> int:
        """What it may hold without anybody taking it back: assured to it, or left to it by others."""
        return max(self.own, self.assured)

    @property
    def burst(self) -> int:
        """Held above its floor."""
        return max(0, self.held - self.floor)

    @property
    def borrowed(self) -> int:
        """Held beyond its own: what others may take back."""
        return max(0, self.held - self.own)

    @property
    def owed(self) -> int:
        """Its own that it waits for and does not hold."""
        return max(0, min(self.own, self.held + self.waiting) - self.held)


def balance(snapshot: Snapshot, gpu_type: str) -> list[Line]:
    """A line for each node, parents before their children, in the order of the tree."""
    wishes = wanted(snapshot, gpu_type)
    own, assured = owned(snapshot, gpu_type, wishes)
    return list(_lines(snapshot.quota.root, gpu_type, wishes, own, assured))


def owned(
    snapshot: Snapshot, gpu_type: str, wishes: Mapping[Branch, int]
) -> tuple[dict[Branch, Fraction], dict[Branch, Fraction]]:
    """What each branch may call its own by these wishes of the teams, and if everybody wanted everything, in GPUs."""
    quota, free = snapshot.quota, usable(snapshot, gpu_type)
    everything = {branch: free for branch in quota.by_name.values() if not branch.children}
    return entitlements(quota.root, gpu_type, free, wishes), entitlements(quota.root, gpu_type, free, everything)


def usable(snapshot: Snapshot, gpu_type: str) -> int:
    """The GPUs of a type that are held, or free on nodes that take work."""
    free = sum(zone.free for zone in snapshot.topology.by_type.get(gpu_type, ()))
    return free + snapshot.quota.root.held.get(gpu_type, 0)


def wanted(snapshot: Snapshot, gpu_type: str) -> dict[Branch, int]:
    """What each team holds and waits for."""
    quota = snapshot.quota
    wishes = {b: b.held.get(gpu_type, 0) for b in quota.by_name.values() if not b.children}
    for group in snapshot.waiting.groups.values():
        if group.shape.gpu_type in (gpu_type, ANY_GPU_TYPE):
            leaf = quota.leaf(group.team)
            wishes[leaf] = wishes.get(leaf, 0) + group.shape.gpus * len(group.jobs)
    return wishes


def promised(tree: QuotaTree) -> dict[str, dict[str, int]]:
    """The GPUs by type that each node and those below it are guaranteed together; under ``""`` the whole tree."""
    found: dict[str, dict[str, int]] = {}
    below: dict[str, dict[str, int]] = {}
    for node in reversed(tree.nodes):
        inner = below.get(node.name, {})
        mine = {kind: max(node.floor.get(kind, 0), inner.get(kind, 0)) for kind in node.floor.keys() | inner.keys()}
        found[node.name] = mine
        above = below.setdefault(node.parent or "", {})
        for kind, gpus in mine.items():
            above[kind] = above.get(kind, 0) + gpus
    found[""] = below.get("", {})
    return found


def _lines(
    branch: Branch,
    gpu_type: str,
    wishes: dict[Branch, int],
    own: dict[Branch, Fraction],
    assured: dict[Branch, Fraction],
) -> Iterator[Line]:
    weights = sum((child.node.share for child in branch.children), Fraction(0))
    for child in branch.children:
        node = child.node
        held = child.held.get(gpu_type, 0)
        if child.closed and not held:
            continue
        yield Line(
            node=child.name.lstrip("\0"),
            parent=branch.name or None,
            depth=len(child.path) - 2,
            team=not child.children,
            gpu_type=gpu_type,
            share=node.share,
            part=node.share / weights if weights else Fraction(0),
            floor=node.floor.get(gpu_type, 0),
            ceiling=node.ceiling.get(gpu_type),
            held=held,
            waiting=sum(
                wishes.get(leaf, 0) - leaf.held.get(gpu_type, 0) for leaf in child.below() if not leaf.children
            ),
            own=floor(own[child]),
            assured=floor(assured[child]),
            closed=child.closed,
        )
        yield from _lines(child, gpu_type, wishes, own, assured)
