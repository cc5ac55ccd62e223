"""What sets two quota trees apart, field by field, and how to carry single fields over from one to another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quotas.rows import from_row, parents_first, to_row
from scheduler.core.types import QuotaNode, QuotaTree

Value = str | int | bool | None
"""A field's value as ``quotas.rows`` writes it; None: the field is absent (no floor, no ceiling, no such node)."""

SHAPE = frozenset({"parent"})
"""The fields that say where a node hangs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field of one node. ``field`` is a name of ``quotas.rows``, with a key where it holds several numbers:
    ``share``, ``floor.H100``, ``class_caps.P0``."""

    node: str
    field: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class Diff:
    """``changes`` holds the fields of added and removed nodes too, their other side being None."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changes)

    @property
    def reshapes(self) -> bool:
        """Whether nodes come, go or move, so that more than numbers change."""
        return bool(self.added or self.removed) or any(change.field in SHAPE for change in self.changes)


def diff(before: QuotaTree, after: QuotaTree) -> Diff:
    """What leads from one tree to the other, in the order of their nodes."""
    old = {node.name: node for node in before.nodes}
    new = {node.name: node for node in after.nodes}
    names = [*new, *(name for name in old if name not in new)]
    found: list[Change] = []
    for name in names:
        was = fields(old[name]) if name in old else {}
        now = fields(new[name]) if name in new else {}
        found += [
            Change(name, field, was.get(field), now.get(field))
            for field in {**was, **now}
            if was.get(field) != now.get(field)
        ]
    return Diff(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changes=tuple(found),
    )


def fields(node: QuotaNode) -> dict[str, Value]:
    """Every field that a node has, flat: ``{"share": "40", "floor.H100": 64}``."""
    flat: dict[str, Value] = {}
    for name, value in to_row(node).items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": number for key, number in sorted(value.items())}
        elif name != "name":
            flat[name] = value
    return flat


def with_fields(tree: QuotaTree, values: Mapping[tuple[str, str], Value]) -> QuotaTree:
    """The tree with these fields, (node, field) → value, set; those of nodes that it lacks are left out."""
    by_node: dict[str, dict[str, Value]] = {}
    for (node, field), value in values.items():
        by_node.setdefault(node, {})[field] = value
    nodes = tuple(_set(node, by_node.get(node.name, {})) for node in tree.nodes)
    return QuotaTree(nodes, tree.version, tree.open)


def value_of(tree: QuotaTree, node: str, field: str) -> Value:
    """A field's value in a tree; None where it, or the node, is absent."""
    return next((fields(one).get(field) for one in tree.nodes if one.name == node), None)


def names(tree: QuotaTree) -> set[str]:
    return {node.name for node in tree.nodes}


def as_json(changes: Iterable[Change]) -> list[dict[str, Value]]:
    return [{"node": one.node, "field": one.field, "before": one.before, "after": one.after} for one in changes]


def from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change(row["node"], row["field"], row["before"], row["after"]) for row in rows)


def _set(node: QuotaNode, values: Mapping[str, Value]) -> QuotaNode:
    if not values:
        return node
    row = to_row(node)
    for field, value in values.items():
        name, _, key = field.partition(".")
        if not key:
            row[name] = value
        elif value is None:
            row[name].pop(key, None)
        else:
            row[name][key] = value
    return from_row(row)


def carried(base: QuotaTree, drafted: QuotaTree, present: QuotaTree) -> QuotaTree:
    """What the draft changed of its base, done to the tree that is in force by now; all else stays as it is there."""
    edit = diff(base, drafted)
    known = names(present)
    new = [node for node in drafted.nodes if node.name in edit.added and node.name not in known]
    kept = [node for node in present.nodes if node.name not in edit.removed]
    touched = {(one.node, one.field): one.after for one in edit.changes if one.node not in edit.added + edit.removed}
    return parents_first(with_fields(QuotaTree((*kept, *new), present.version), touched))
