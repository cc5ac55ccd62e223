"""The quota tree, read: as the core knows it, and as the portal asks about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from django.db.models import Max, Subquery

from quotas import models
from scheduler.core.types import QuotaNode, QuotaTree

_kept: tuple[int, QuotaTree] = (0, QuotaTree())
"""The primary key of the revision that was read last, and its tree. Keys are never used again, versions might be."""


def tree() -> QuotaTree:
    """The whole tree, parents before their children, siblings by name, with the version in force. One query."""
    newest = models.QuotaRevision.objects.order_by("-version").values("version")[:1]
    rows = list(models.QuotaNode.objects.annotate(in_force=Subquery(newest)).order_by("name"))
    names: dict[int | None, str] = {row.pk: row.name for row in rows}
    nodes = tuple(_core(row, names.get(row.parent_id)) for row in _parents_first(rows))
    # Without a row there is nothing that the version could hang on.
    return QuotaTree(nodes=nodes, version=(rows[0].in_force or 0) if rows else version())


def tree_in_force() -> QuotaTree:
    """The tree, read anew only where another revision is in force than at the last call: one small query until then.

    All callers share it. Not for a transaction that is about to change the tree.
    """
    global _kept
    newest = models.QuotaRevision.objects.order_by("-version").values_list("pk", "version").first()
    if newest is not None and newest[0] == _kept[0]:
        return _kept[1]
    found = tree()
    if newest is not None and found.version == newest[1]:
        _kept = (newest[0], found)
    return found


def version() -> int:
    """The version in force; 0 before the first tree was applied."""
    return models.QuotaRevision.objects.aggregate(highest=Max("version"))["highest"] or 0


def teams(quota: QuotaTree) -> list[QuotaNode]:
    """The nodes that jobs may name: those without children."""
    inner = {node.parent for node in quota.nodes}
    return [node for node in quota.nodes if node.name not in inner]


def path(quota: QuotaTree, name: str) -> list[QuotaNode]:
    """A node and what is above it, innermost first; empty for a name that the tree does not know."""
    nodes = {node.name: node for node in quota.nodes}
    found: list[QuotaNode] = []
    step = nodes.get(name)
    while step is not None:
        found.append(step)
        step = nodes.get(step.parent) if step.parent is not None else None
    return found


def with_descendants(node_ids: Iterable[int]) -> dict[str, int]:
    """Name → id of these nodes and all below them. One query, none for no ids."""
    wanted = set(node_ids)
    if not wanted:
        return {}
    found: dict[str, int] = {}
    for row in _parents_first(models.QuotaNode.objects.only("id", "name", "parent_id").order_by("name")):
        if row.pk in wanted or row.parent_id in wanted:
            wanted.add(row.pk)
            found[row.name] = row.pk
    return found


def _parents_first(rows: Iterable[models.QuotaNode]) -> Iterator[models.QuotaNode]:
    below: dict[int | None, list[models.QuotaNode]] = {}
    for row in rows:
        below.setdefault(row.parent_id, []).append(row)
    waiting = list(reversed(below.get(None, [])))
    while waiting:
        row = waiting.pop()
        yield row
        waiting.extend(reversed(below.get(row.pk, [])))


def _core(row: models.QuotaNode, parent: str | None) -> QuotaNode:
    return QuotaNode(
        name=row.name,
        parent=parent,
        share=Fraction(row.share),
        floor=dict(row.floor),
        ceiling=dict(row.ceiling),
        min_runtime_ms=row.min_runtime_s * 1000,
        p0=row.p0_allowed,
        reclaim=row.reclaim,
        class_caps={int(name[1:]): most for name, most in row.class_caps.items()},
    )
