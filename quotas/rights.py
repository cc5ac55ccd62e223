"""Which edits of the quota tree somebody may make. Pure.

An admin of a node divides what the node has among those below it. What the node itself gets, and what protects those
below it from anybody outside (floors beyond its own, a longer protected run time), is for an admin of its parent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quotas.diff import diff
from quotas.validation import Problem
from scheduler.core.balance import promised
from scheduler.core.types import QuotaNode, QuotaTree


def overreach(before: QuotaTree, after: QuotaTree, admin_of: Collection[str] | None) -> list[Problem]:
    """What of the edit is beyond the rights of an admin of these nodes (which reach down the tree; None: all)."""
    if admin_of is None:
        return []
    found = list(_beyond_their_part(before, after, admin_of))
    # Whoever may not touch a node at all need not be told of its numbers too.
    return found or [*_floors_from_outside(before, after, admin_of), *_protection(before, after, admin_of)]


def editable(tree: QuotaTree, admin_of: Collection[str] | None) -> set[str]:
    """The nodes whose fields an admin of these nodes may change: those below them."""
    return {node.name for node in tree.nodes if admin_of is None or node.parent in admin_of}


def _beyond_their_part(before: QuotaTree, after: QuotaTree, admin_of: Collection[str]) -> Iterator[Problem]:
    parents = [{node.name: node.parent for node in tree.nodes} for tree in (before, after)]
    told: set[str] = set()
    for change in diff(before, after).changes:
        above = [tree[change.node] for tree in parents if change.node in tree]
        foreign = next((parent for parent in above if parent not in admin_of), "")
        if foreign == "" or change.node in told:
            continue
        told.add(change.node)
        who = "an administrator" if foreign is None else f"an admin of {foreign}"
        yield Problem(change.node, change.field, f"may only be changed by {who}")


def _tops(tree: QuotaTree, admin_of: Collection[str]) -> list[QuotaNode]:
    """The nodes that the admin holds from outside."""
    return [node for node in tree.nodes if node.name in admin_of and node.parent not in admin_of]


def _floors_from_outside(before: QuotaTree, after: QuotaTree, admin_of: Collection[str]) -> Iterator[Problem]:
    old, new = promised(before), promised(after)
    for top in _tops(before, admin_of):
        for kind, gpus in sorted(new.get(top.name, {}).items()):
            most = max(top.floor.get(kind, 0), old.get(top.name, {}).get(kind, 0))
            if gpus > most:
                reason = f"the floors below it come to {gpus} and may come to {most}, which is what {top.name} has"
                yield Problem(top.name, f"floor.{kind}", reason)


def _protection(before: QuotaTree, after: QuotaTree, admin_of: Collection[str]) -> Iterator[Problem]:
    was = {node.name: node.min_runtime_ms for node in before.nodes}
    granted = {top.name: top.min_runtime_ms for top in _tops(before, admin_of)}
    for node in after.nodes:
        if node.parent not in granted:
            continue
        granted[node.name] = granted[node.parent]
        most = max(was.get(node.name, 0), granted[node.name])
        if node.min_runtime_ms > most:
            reason = f"may be raised to {most // 1000} s at most; more keeps others from their share"
            yield Problem(node.name, "min_runtime_s", reason)
