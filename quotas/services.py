"""The quota tree, written: a whole tree at a time, each with its revision.

What is written here reaches the scheduler when the caller publishes it (``scheduler.intents.publish_quota``), in the
same transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.db import connection, transaction
from django.db.models import ProtectedError

from quotas import models, selectors
from quotas.rows import to_rows
from quotas.validation import InvalidTree, Problem, problems
from scheduler.core.types import QuotaNode, QuotaTree

_ONE_WRITER = 0x6761_6E67_7175
"""The advisory lock under which trees are written one after the other."""


class Outdated(Exception):
    """The tree has changed since it was read. ``version`` is the one in force."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} is in force by now")
        self.version = version


def seed(tree: QuotaTree, at: datetime) -> QuotaTree:
    """Apply a first tree; where one is in force already, that one stays. Answers the tree in force."""
    with transaction.atomic():
        _lock()
        if selectors.version():
            return selectors.tree()
        return apply(tree, at=at, reason="first tree")


def apply(
    tree: QuotaTree,
    *,
    at: datetime,
    by_id: int | None = None,
    reason: str = "",
    gpu_types: Collection[str] | None = None,
    based_on: int | None = None,
    edit_id: int | None = None,
) -> QuotaTree:
    """Put a whole tree in force and keep it as a new revision; a tree that is in force already changes nothing.

    Args:
        by_id: the person whose edit it is.
        gpu_types: those that the tree may name; None: any.
        based_on: the version that the edit was made on, None to overwrite whatever is in force.
        edit_id: the scheduled edit that begins or ends with it.

    Raises:
        InvalidTree: it is no tree, a node that it leaves out has jobs, past ones too, or a team that it divides has
            live ones.
        Outdated: ``based_on`` is no longer in force.
    """
    wrong = problems(tree, gpu_types)
    if wrong:
        raise InvalidTree(wrong)
    with transaction.atomic():
        _lock()
        present = selectors.tree()
        if based_on is not None and based_on != present.version:
            raise Outdated(present.version)
        if present.version and _same(tree, present):
            return present
        _refuse_to_divide(present, tree)
        _write(tree)
        applied = replace(selectors.tree(), version=present.version + 1)
        models.QuotaRevision.objects.create(
            version=applied.version, tree=to_rows(applied), at=at, by_id=by_id, reason=reason, edit_id=edit_id
        )
        return applied


def alone() -> None:
    """Keep every other writer of trees out for the rest of the transaction."""
    _lock()


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ONE_WRITER])


def _same(one: QuotaTree, other: QuotaTree) -> bool:
    return {node.name: node for node in one.nodes} == {node.name: node for node in other.nodes}


def _refuse_to_divide(present: QuotaTree, tree: QuotaTree) -> None:
    """Only teams hold jobs: one that has live ones gets no teams below it."""
    inner = {node.parent for node in tree.nodes} - {node.parent for node in present.nodes}
    held = models.QuotaNode.objects.filter(name__in=inner - {None}, jobs__in_store=True).distinct()
    wrong = [Problem(row.name, "", "has live jobs and cannot be divided into teams") for row in held]
    if wrong:
        raise InvalidTree(wrong)


def _write(tree: QuotaTree) -> None:
    rows = {row.name: row for row in models.QuotaNode.objects.all()}
    for node in tree.nodes:
        row = rows[node.name] = rows.get(node.name) or models.QuotaNode(name=node.name)
        row.parent = rows[node.parent] if node.parent is not None else None
        row.share = _decimal(node)
        row.floor, row.ceiling, row.class_caps = node.floor, node.ceiling, _caps(node)
        row.min_runtime_s = node.min_runtime_ms // 1000
        row.p0_allowed, row.reclaim = node.p0, node.reclaim
        row.save()
    _delete([row for name, row in rows.items() if name not in {node.name for node in tree.nodes}])


def _delete(rows: list[models.QuotaNode]) -> None:
    gone = models.QuotaNode.objects.filter(pk__in=[row.pk for row in rows])
    # A parent is protected from its children even where they go together.
    gone.update(parent=None)
    try:
        gone.delete()
    except ProtectedError as error:
        held = {row.team.name for row in error.protected_objects if hasattr(row, "team")}
        raise InvalidTree([Problem(name, "", "has jobs and cannot be removed") for name in sorted(held)]) from error


def _decimal(node: QuotaNode) -> Decimal:
    return Decimal(node.share.numerator) / Decimal(node.share.denominator)


def _caps(node: QuotaNode) -> dict[str, int]:
    return {f"P{priority}": most for priority, most in sorted(node.class_caps.items())}
