"""The trees that were in force, each with what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quotas.diff import Diff, diff
from quotas.models import QuotaRevision
from quotas.rows import from_rows
from scheduler.core.types import QuotaTree


@dataclass(frozen=True, slots=True)
class Revised:
    """One revision. ``by`` is the name of whoever edited, None where nobody did or they are gone; ``edit_id`` names the
    scheduled edit that began or ended with it."""

    version: int
    at: datetime
    by: str | None
    reason: str
    edit_id: int | None
    diff: Diff


def history(limit: int, before: int | None = None) -> list[Revised]:
    """The newest revisions (older than version ``before``), newest first. One query."""
    found = QuotaRevision.objects.select_related("by").order_by("-version")
    rows = list((found if before is None else found.filter(version__lt=before))[: limit + 1])
    trees = [from_rows(row.tree, row.version) for row in rows]
    trees.append(QuotaTree())  # what the first one ever is compared with
    return [
        Revised(
            version=row.version,
            at=row.at,
            by=row.by.get_username() if row.by is not None else None,
            reason=row.reason,
            edit_id=row.edit_id,
            diff=diff(older, tree),
        )
        for row, tree, older in zip(rows[:limit], trees, trees[1:], strict=False)
    ]
