"""The quota tree in JSON values: as the REST interface speaks of it and as history keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from scheduler.core.types import QuotaNode, QuotaTree


def to_rows(tree: QuotaTree) -> list[dict[str, Any]]:
    """The nodes of a tree; shares are decimal text, so that none is rounded."""
    return [to_row(node) for node in tree.nodes]


def to_row(node: QuotaNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "parent": node.parent,
        "share": share_text(node.share),
        "floor": dict(node.floor),
        "ceiling": dict(node.ceiling),
        "min_runtime_s": node.min_runtime_ms // 1000,
        "p0_allowed": node.p0,
        "reclaim": node.reclaim,
        "class_caps": {f"P{priority}": most for priority, most in sorted(node.class_caps.items())},
    }


def from_rows(rows: Iterable[Mapping[str, Any]], version: int) -> QuotaTree:
    """The inverse of ``to_rows``. What the rows say is not checked here: see ``quotas.validation``."""
    return QuotaTree(tuple(from_row(row) for row in rows), version=version)


def from_row(row: Mapping[str, Any]) -> QuotaNode:
    return QuotaNode(
        name=row["name"],
        parent=row["parent"],
        share=Fraction(row["share"]),
        floor=dict(row["floor"]),
        ceiling=dict(row["ceiling"]),
        min_runtime_ms=row["min_runtime_s"] * 1000,
        p0=row["p0_allowed"],
        reclaim=row["reclaim"],
        class_caps={int(name[1:]): most for name, most in row["class_caps"].items()},
    )


def share_text(share: Fraction) -> str:
    """A share as decimal text without idle zeros: ``40``, ``0.001``."""
    return f"{Decimal(share.numerator) / Decimal(share.denominator):f}"


def parents_first(tree: QuotaTree) -> QuotaTree:
    """The same nodes in the order in which a tree wants them, siblings by name.

    What hangs below no root (a cycle, an unknown parent) comes last, for ``quotas.validation`` to speak of.
    """
    below: dict[str | None, list[QuotaNode]] = {}
    for node in sorted(tree.nodes, key=lambda node: node.name):
        below.setdefault(node.parent, []).append(node)
    ordered: list[QuotaNode] = []
    waiting = below.pop(None, [])[::-1]
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting.extend(below.pop(node.name, [])[::-1])
    ordered += [node for nodes in below.values() for node in nodes]
    return QuotaTree(tuple(ordered), tree.version, tree.open)
