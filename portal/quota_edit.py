"""Editing the quota tree, the same for the page and the REST interface: who may, what it would do, and doing it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.accounts.models import User
from portal.accounts.permissions import Standing
from portal.quota_foresight import Foreseen, foresee
from quotas import diff, rights, selectors
from quotas.models import ScheduledEdit
from quotas.rows import from_rows, parents_first
from quotas.validation import InvalidTree, Problem, problems
from scheduler import clock, quota_edits
from scheduler.core.types import QuotaTree
from scheduler.fields import FieldError
from scheduler.picture import picture
from scheduler.store.base import StoreUnavailable


class Refused(ValueError):
    """The edit is no valid tree, or beyond the person's rights. ``problems`` name the nodes; ``forbidden``: rights."""

    def __init__(self, problems: list[Problem], forbidden: bool) -> None:
        super().__init__("; ".join(" ".join((one.node, one.field, one.reason)) for one in problems))
        self.problems = problems
        self.forbidden = forbidden


@dataclass(frozen=True, slots=True)
class Wanted:
    """An edit as it was asked for. ``starts_at`` None: at once; ``ends_at`` None: for good."""

    tree: QuotaTree
    based_on: int
    reason: str
    starts_at: datetime | None = None
    ends_at: datetime | None = None


def tree_of(rows: Sequence[dict[str, Any]], version: int) -> QuotaTree:
    """The tree that rows (as ``quotas.rows`` writes them) describe, in whatever order they come."""
    return parents_first(from_rows(rows, version))


def check(standing: Standing, before: QuotaTree, after: QuotaTree) -> None:
    """Raises Refused unless the person may turn the one tree into the other."""
    wrong = problems(after, known_types(before))
    if wrong:
        raise Refused(wrong, forbidden=False)
    beyond = rights.overreach(before, after, admin_of(standing))
    if beyond:
        raise Refused(beyond, forbidden=True)


def admin_of(standing: Standing) -> Collection[str] | None:
    """The nodes whose inside the person divides; None: all, and the roots too."""
    return None if standing.administrator else standing.admin_of


def known_types(tree: QuotaTree) -> list[str] | None:
    """The GPU types that a tree may name: the fleet's, and those it names already. None while the fleet is unknown."""
    try:
        with picture().reading() as snapshot:
            fleet = set(snapshot.topology.total)
    except StoreUnavailable:
        return None
    return sorted(fleet | {kind for node in tree.nodes for kind in (*node.floor, *node.ceiling)})


def put(user: User, standing: Standing, wanted: Wanted) -> ScheduledEdit | None:
    """Carry the edit out, or schedule it; answers the scheduled edit where it has times.

    Raises:
        Refused; Outdated, where ``based_on`` is no longer in force; NotSchedulable.
    """
    present = selectors.tree()
    if wanted.based_on == present.version:  # else it is refused below, whatever it holds
        check(standing, present, wanted.tree)
    more: dict[str, Any] = {
        "now": clock.to_datetime(clock.now_ms()),
        "by_id": user.pk,
        "reason": wanted.reason,
        "based_on": wanted.based_on,
        "gpu_types": None,  # checked above, on the tree that it is based on
    }
    try:
        if wanted.starts_at is None and wanted.ends_at is None:
            quota_edits.put(wanted.tree, **more)
            return None
        return quota_edits.put_for(wanted.tree, starts_at=wanted.starts_at, ends_at=wanted.ends_at, **more)
    except InvalidTree as error:
        raise Refused(error.problems, forbidden=False) from error


def may_cancel(standing: Standing, edit: ScheduledEdit, tree: QuotaTree) -> bool:
    """Whether the person may edit every node that the scheduled edit is about and that is still there."""
    about = {change.node for change in diff.from_json(edit.changes)} & diff.names(tree)
    return standing.administrator or (bool(about) and about <= rights.editable(tree, standing.admin_of))


def cancel(standing: Standing, edit_id: int) -> None:
    """Call a scheduled edit off, or end it now.

    Raises:
        ScheduledEdit.DoesNotExist, EditIsOver; Refused, where it is not theirs to end.
    """
    edit = ScheduledEdit.objects.get(pk=edit_id)
    if not may_cancel(standing, edit, selectors.tree()):
        raise Refused([Problem("", "", "may only be ended by somebody who may edit the nodes that it is about")], True)
    quota_edits.cancel(edit_id, clock.to_datetime(clock.now_ms()))


def preview(standing: Standing, drafted: QuotaTree) -> Foreseen:
    """What the tree would do.

    Raises:
        Refused: it could not come into force.
        StoreUnavailable: the live state was never loaded.
    """
    check(standing, selectors.tree(), drafted)
    return foresee(standing, drafted)


def field_errors(refused: Refused, rows: Sequence[dict[str, Any]]) -> list[FieldError]:
    """What was refused, by its place among the rows that were given."""
    places = {row["name"]: place for place, row in enumerate(rows)}
    found = []
    for one in refused.problems:
        place = places.get(one.node)
        path = f"nodes[{place}]" if place is not None else "nodes"
        path += f".{one.field}" if one.field else ""
        reason = one.reason if place is not None else f"{one.node} {one.reason}"
        remedy = "Ask somebody with that right." if refused.forbidden else "Mend it and send the tree again."
        found.append(FieldError(path, reason.strip(), remedy, "forbidden" if refused.forbidden else "invalid"))
    return found
