"""Edits of the quota tree, as people make them and as their times come: written by ``quotas``, and published to the
scheduler in the same transaction, so that neither happens without the other."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import structlog
from django.db import transaction

from quotas import edits, services
from quotas.models import ScheduledEdit
from scheduler.core.types import QuotaTree
from scheduler.intents import publish_quota

log = structlog.get_logger(__name__)


def put(
    tree: QuotaTree, *, now: datetime, by_id: int, reason: str, based_on: int, gpu_types: Collection[str] | None
) -> QuotaTree:
    """Put a tree in force now and for good; answers it with its version. Raises as ``quotas.services.apply``."""
    with transaction.atomic():
        applied = services.apply(tree, at=now, by_id=by_id, reason=reason, gpu_types=gpu_types, based_on=based_on)
        if applied.version != based_on:
            publish_quota(applied)
        return applied


def put_for(
    tree: QuotaTree,
    *,
    now: datetime,
    starts_at: datetime | None,
    ends_at: datetime | None,
    by_id: int,
    reason: str,
    based_on: int,
    gpu_types: Collection[str] | None,
) -> ScheduledEdit:
    """Have the tree's changes begin at a time (None: now), or end at one, or both. Raises as ``quotas.edits.schedule``.

    One that begins now is in force when this returns.
    """
    with transaction.atomic():
        edit = edits.schedule(
            tree,
            now=now,
            starts_at=starts_at,
            ends_at=ends_at,
            by_id=by_id,
            reason=reason,
            based_on=based_on,
            gpu_types=gpu_types,
        )
        _publish(edits.advance(edit.pk, now))
    edit.refresh_from_db()
    return edit


def cancel(edit_id: int, now: datetime) -> None:
    """Call the edit off, or end it now. Raises as ``quotas.edits.cancel``."""
    with transaction.atomic():
        _publish(edits.cancel(edit_id, now))


def carry_out_due(now: datetime) -> int:
    """Begin and end what is due, each edit in a transaction of its own; answers how many were looked at.

    Two at once, or one that dies on the way, do no harm: what an edit has come to is in its row.
    """
    due = edits.due(now)
    for edit_id in due:
        with transaction.atomic():
            applied = edits.advance(edit_id, now)
            _publish(applied)
        log.info("a scheduled edit of the quota tree was due", edit=edit_id, version=applied and applied.version)
    return len(due)


def _publish(applied: QuotaTree | None) -> None:
    if applied is not None:
        publish_quota(applied)
