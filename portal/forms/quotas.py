"""The quota tree as a form: every field of every node that the person may edit is an input ``node/field``.

What is in the form lies over the tree in force, so that a draft made on an older version keeps what others changed in
fields that it does not touch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

from django.http import QueryDict

from quotas.diff import Value, fields, with_fields
from quotas.rows import parents_first
from quotas.validation import Problem
from scheduler.core.types import QuotaNode, QuotaTree

CLASSES = ("P0", "P1", "P2", "P3")
SHARE = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
COUNT = re.compile(r"\d{1,8}", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(slots=True)
class Draft:
    """``tree`` is what was typed as far as it could be read; ``typed`` and ``errors`` are by (node, field)."""

    tree: QuotaTree
    typed: dict[tuple[str, str], str] = field(default_factory=dict)
    errors: dict[tuple[str, str], str] = field(default_factory=dict)

    def tell(self, problems: Sequence[Problem]) -> None:
        for one in problems:
            name = "min_runtime_s" if one.field == "min_runtime" else one.field
            self.errors.setdefault((one.node, name), one.reason)


@dataclass(frozen=True, slots=True)
class Cell:
    """One input. ``was`` is the value in force where the draft's is another."""

    name: str
    field: str
    value: str
    was: str | None
    error: str
    on: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One node of the draft. ``cells`` by field; empty where the person may not edit it."""

    node: QuotaNode
    depth: int
    editable: bool
    added: bool
    removed: bool
    cells: dict[str, Cell]
    error: str


def known_fields(types: Sequence[str]) -> list[str]:
    return [
        "share",
        *(f"floor.{kind}" for kind in types),
        *(f"ceiling.{kind}" for kind in types),
        "min_runtime_s",
        "reclaim",
        "p0_allowed",
        *(f"class_caps.{name}" for name in CLASSES),
    ]


def read(post: QueryDict, base: QuotaTree, editable: Collection[str], types: Sequence[str]) -> Draft:
    """The draft that the form holds, made on ``base``, the tree that it was shown with."""
    draft = Draft(base)
    _add(draft, post)
    new = {node.name for node in draft.tree.nodes} - {node.name for node in base.nodes}
    values: dict[tuple[str, str], Value] = {}
    for name in post.getlist("node"):
        if name in editable or name in new:
            for one in known_fields(types):
                _read(draft, post, name, one, values)
    draft.tree = with_fields(draft.tree, values)
    gone = set(post.getlist("remove")) & (set(editable) | new)
    if gone:
        draft.tree = _without(draft.tree, gone)
    return draft


def _read(draft: Draft, post: QueryDict, node: str, name: str, values: dict[tuple[str, str], Value]) -> None:
    place = (node, name)
    if name == "p0_allowed":
        values[place] = f"{node}/{name}" in post
        return
    typed = post.get(f"{node}/{name}")
    if typed is None:
        return
    typed = draft.typed[place] = typed.replace("\x00", "").strip()[:32]
    if name == "share":
        if SHARE.fullmatch(typed):
            values[place] = typed
        else:
            draft.errors[place] = "must be a number such as 40 or 12.5"
    elif name == "reclaim":
        values[place] = typed if typed in ("share", "floor") else "share"
    elif not typed:
        values[place] = 0 if name == "min_runtime_s" else None
    elif COUNT.fullmatch(typed):
        values[place] = int(typed)
    else:
        draft.errors[place] = "must be a whole number, or empty for none"


def _add(draft: Draft, post: QueryDict) -> None:
    """Nodes that the draft has added before, and the one that is typed now."""
    names = [*post.getlist("added"), post.get("new_name", "").strip()]
    parents = [*post.getlist("added_parent"), post.get("new_parent", "")]
    nodes = list(draft.tree.nodes)
    for name, parent in zip(names, parents, strict=False):
        if not name:
            continue
        if not NAME.fullmatch(name):
            draft.errors["", "new_name"] = "must be 1 to 64 letters, digits, - or _"
        elif any(node.name == name for node in nodes):
            draft.errors["", "new_name"] = f"{name} is there already"
        else:
            nodes.append(QuotaNode(name, parent or None, share=Fraction(1), p0=False))
    draft.tree = parents_first(QuotaTree(tuple(nodes), draft.tree.version))


def _without(tree: QuotaTree, gone: set[str]) -> QuotaTree:
    kept = []
    for node in tree.nodes:
        if node.name in gone or node.parent in gone:
            gone.add(node.name)
        else:
            kept.append(node)
    return QuotaTree(tuple(kept), tree.version)


def rows(draft: Draft, present: QuotaTree, editable: Collection[str], types: Sequence[str]) -> list[Row]:
    """The draft to be shown, removed nodes in their places."""
    old = {node.name: node for node in present.nodes}
    new = {node.name: node for node in draft.tree.nodes}
    merged = parents_first(QuotaTree((*new.values(), *(node for name, node in old.items() if name not in new))))
    depth: dict[str | None, int] = {None: -1}
    found = []
    for node in merged.nodes:
        depth[node.name] = depth.get(node.parent, -1) + 1
        may = node.name in editable or node.name not in old
        cells = _cells(draft, node, old.get(node.name), types) if may and node.name in new else {}
        error = draft.errors.get((node.name, "")) or draft.errors.get((node.name, "parent"), "")
        found.append(Row(node, depth[node.name], may, node.name not in old, node.name not in new, cells, error))
    return found


def _cells(draft: Draft, node: QuotaNode, old: QuotaNode | None, types: Sequence[str]) -> dict[str, Cell]:
    now, before = fields(node), fields(old) if old is not None else {}
    found = {}
    for name in known_fields(types):
        value, was = now.get(name), before.get(name)
        shown = draft.typed.get((node.name, name), _text(value))
        changed = old is not None and value != was
        found[name] = Cell(
            name=f"{node.name}/{name}",
            field=name,
            value=shown,
            was=(_text(was) or "none") if changed else None,
            error=draft.errors.get((node.name, name), ""),
            on=value is True,
        )
    return found


def _text(value: Value) -> str:
    return "" if value is None else "yes" if value is True else "no" if value is False else str(value)


def moment(typed: str, zone: ZoneInfo) -> datetime | None:
    """A time as ``datetime-local`` inputs send it, in the reader's zone; None for an empty one.

    Raises:
        ValueError: it is none.
    """
    if not typed.strip():
        return None
    found = datetime.fromisoformat(typed.strip())
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)
