"""Edits of the quota tree that begin, or end, at a time: deadlines are rows, and whoever comes by carries out what is
due.

An edit touches its own fields and nothing else. What somebody changed in one of them after it began stays: the end of
the edit puts back only what still is as the edit left it. Two edits never touch the same field at the same time.

Each function runs in the caller's transaction, so that what comes into force is published in the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Q, QuerySet

from quotas import diff, selectors, services
from quotas.models import ScheduledEdit
from quotas.validation import InvalidTree, problems
from scheduler.core.types import QuotaTree

State = ScheduledEdit.State
OPEN = (State.WAITING, State.IN_FORCE)


class NotSchedulable(ValueError):
    """The edit cannot be put off or bounded in time; the sentence says why."""


class EditIsOver(ValueError):
    """The edit has ended, or was cancelled, before."""


def schedule(
    tree: QuotaTree,
    *,
    now: datetime,
    starts_at: datetime | None,
    ends_at: datetime | None,
    by_id: int | None,
    reason: str,
    based_on: int,
    gpu_types: Collection[str] | None = None,
) -> ScheduledEdit:
    """Keep what sets ``tree`` apart from the one in force as an edit from ``starts_at`` (None: now) to ``ends_at``.

    Raises:
        InvalidTree: the tree could not come into force even now.
        NotSchedulable: nodes come, go or move; nothing changes; the times are in the past or the wrong way round; or
            another edit has one of the fields for part of that time.
        Outdated: ``based_on`` is no longer in force.
    """
    wrong = problems(tree, gpu_types)
    if wrong:
        raise InvalidTree(wrong)
    begins = starts_at or now
    if begins < now or (ends_at is not None and ends_at <= begins):
        raise NotSchedulable("it must begin in the future, and end after it has begun")
    services.alone()
    present = selectors.tree()
    if present.version != based_on:
        raise services.Outdated(present.version)
    found = diff.diff(present, tree)
    if not found:
        raise NotSchedulable("it changes nothing")
    if found.reshapes:
        raise NotSchedulable("nodes can only be added, moved or removed at once and for good")
    _refuse_overlap(found.changes, begins, ends_at)
    return ScheduledEdit.objects.create(
        changes=diff.as_json(found.changes),
        starts_at=begins,
        ends_at=ends_at,
        made_at=now,
        by_id=by_id,
        reason=reason,
    )


def due(now: datetime) -> list[int]:
    """The edits that begin or end by ``now``, in the order of those times."""
    begins = Q(state=State.WAITING, starts_at__lte=now)
    ends = Q(state=State.IN_FORCE, ends_at__lte=now)
    found = ScheduledEdit.objects.filter(begins | ends)
    at = sorted((one.starts_at if one.state == State.WAITING else one.ends_at or now, one.pk) for one in found)
    return [pk for _, pk in at]


def advance(edit_id: int, now: datetime) -> QuotaTree | None:
    """Begin or end the edit if it is time; the tree that came into force by that, None if none did."""
    services.alone()
    edit = ScheduledEdit.objects.select_for_update().get(pk=edit_id)
    if edit.state == State.WAITING and edit.starts_at <= now:
        if edit.ends_at is not None and edit.ends_at <= now:
            _close(edit, State.CANCELLED, "its time was over before it could begin")
            return None
        return _begin(edit, now)
    if edit.state == State.IN_FORCE and edit.ends_at is not None and edit.ends_at <= now:
        return _end(edit, State.REVERTED, now)
    return None


def cancel(edit_id: int, now: datetime) -> QuotaTree | None:
    """Call off an edit that waits, or end at once one that is in force. Answers as ``advance``.

    Raises:
        EditIsOver: it was over already.
        ScheduledEdit.DoesNotExist: there is no such edit.
    """
    services.alone()
    edit = ScheduledEdit.objects.select_for_update().get(pk=edit_id)
    if edit.state == State.WAITING:
        _close(edit, State.CANCELLED, "")
        return None
    if edit.state == State.IN_FORCE:
        return _end(edit, State.REVERTED, now)
    raise EditIsOver(f"edit {edit.pk} is {edit.get_state_display().lower()}")


def upcoming() -> QuerySet[ScheduledEdit]:
    """Those that wait or are in force, by when they begin."""
    return ScheduledEdit.objects.filter(state__in=OPEN).select_related("by")


def _refuse_overlap(changes: Iterable[diff.Change], begins: datetime, ends: datetime | None) -> None:
    wanted = {(one.node, one.field) for one in changes}
    for other in ScheduledEdit.objects.filter(state__in=OPEN):
        apart = (other.ends_at is not None and other.ends_at <= begins) or (
            ends is not None and ends <= other.starts_at
        )
        both = [] if apart else sorted(wanted & {(one.node, one.field) for one in diff.from_json(other.changes)})
        # One that is for good and waits only sets the field at its time: only a bounded one owns it for a span.
        if both and (other.ends_at is not None or ends is not None or other.starts_at == begins):
            node, field = both[0]
            until = f" until {other.ends_at:%Y-%m-%d %H:%M} UTC" if other.ends_at else ""
            raise NotSchedulable(f"edit {other.pk} sets {field} of {node} from {other.starts_at:%Y-%m-%d %H:%M}{until}")


def _begin(edit: ScheduledEdit, now: datetime) -> QuotaTree | None:
    present = selectors.tree()
    wanted = diff.from_json(edit.changes)
    known = diff.names(present)
    kept = [one for one in wanted if one.node in known]
    gone = sorted({one.node for one in wanted} - known)
    drafted = diff.with_fields(present, {(one.node, one.field): one.after for one in kept})
    try:
        applied = services.apply(drafted, at=now, by_id=edit.by_id, reason=edit.reason, edit_id=edit.pk)
    except InvalidTree as error:
        _close(edit, State.FAILED, f"it would not have left a valid tree: {error}")
        return None
    edit.changes = diff.as_json(
        diff.Change(one.node, one.field, diff.value_of(present, one.node, one.field), one.after) for one in kept
    )
    note = f"no longer in the tree: {', '.join(gone)}" if gone else ""
    _close(edit, State.IN_FORCE if edit.ends_at is not None else State.APPLIED, note)
    return applied if applied.version != present.version else None


def _end(edit: ScheduledEdit, state: str, now: datetime) -> QuotaTree | None:
    """Put back each field that still is as the edit left it."""
    present = selectors.tree()
    changes = diff.from_json(edit.changes)
    own = [one for one in changes if diff.value_of(present, one.node, one.field) == one.after]
    others = [f"{one.field} of {one.node}" for one in changes if one not in own]
    note = f"edited since, and left as it is: {', '.join(others)}" if others else ""
    drafted = diff.with_fields(present, {(one.node, one.field): one.before for one in own})
    try:
        applied = services.apply(drafted, at=now, by_id=edit.by_id, reason=f"End of: {edit.reason}", edit_id=edit.pk)
    except InvalidTree as error:
        _close(edit, State.FAILED, f"in force still: going back would not leave a valid tree: {error}")
        return None
    _close(edit, state, note)
    return applied if applied.version != present.version else None


def _close(edit: ScheduledEdit, state: str, note: str) -> None:
    edit.state, edit.note = state, "; ".join(words for words in (edit.note, note) if words)
    edit.save(update_fields=["state", "note", "changes"])
