"""What the endpoints of the quota tree answer, and how the records of the core become that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from portal.api.answers import QuotaRow
from quotas.diff import Change, from_json
from quotas.history import Revised
from quotas.models import ScheduledEdit
from quotas.rows import to_rows
from scheduler import clock
from scheduler.core.balance import Line
from scheduler.core.quota_preview import OverCeiling, QuotaPreview, Shift, Stopped, Undeliverable
from scheduler.core.types import QuotaTree


class FieldChange(msgspec.Struct, frozen=True):
    """``field`` is a name of a node's row, with a key where it holds several numbers: ``floor.H100``. Null: absent."""

    node: str
    field: str
    before: str | int | bool | None
    after: str | int | bool | None


class Edit(msgspec.Struct, frozen=True):
    """Fields that change at a time; with ``ends_at``, they go back then by themselves, but for those edited since."""

    id: int
    state: str
    starts_at: datetime
    ends_at: datetime | None
    by: str | None
    reason: str
    note: str
    changes: list[FieldChange]


class Quotas(msgspec.Struct, frozen=True):
    """The tree in force, parents before their children, and the scheduled edits that wait or are in force."""

    version: int
    nodes: list[QuotaRow]
    edits: list[Edit]


class QuotaRevision(msgspec.Struct, frozen=True):
    """One tree that came into force, by what it changed."""

    version: int
    at: datetime
    by: str | None
    reason: str
    edit: int | None
    added: list[str]
    removed: list[str]
    changes: list[FieldChange]


class QuotaHistory(msgspec.Struct, frozen=True):
    items: list[QuotaRevision]
    next_cursor: str | None


class Standing(msgspec.Struct, frozen=True):
    """A node's place among the others, in GPUs of one type. ``own`` is by what everybody wants now, ``assured`` by
    everybody's wanting everything."""

    floor: int
    ceiling: int | None
    held: int
    waiting: int
    own: int
    assured: int


class LevelShift(msgspec.Struct, frozen=True):
    node: str
    gpu_type: str
    before: Standing | None
    after: Standing | None


class StoppedJob(msgspec.Struct, frozen=True):
    """A job that would be stopped; ``job`` is null for one whose name is not yours to know."""

    job: str | None
    team: str
    gpus: int
    gpu_type: str
    cause: str
    for_job: str | None
    for_team: str | None
    at: datetime
    lost_seconds: float


class StartShift(msgspec.Struct, frozen=True):
    """A waiting job whose start would move; null: not before ``until``."""

    job: str | None
    team: str
    gpus: int
    gpu_type: str
    before: datetime | None
    after: datetime | None


class BarredJob(msgspec.Struct, frozen=True):
    """A waiting job that could never start under the tree."""

    job: str | None
    team: str
    gpus: int
    reason: str
    words: str


class Preview(msgspec.Struct, frozen=True):
    """What a tree would do, by the planner's own decisions up to ``until`` with every job using up its limit.

    ``whole`` false: that is not yet as far as one looks, and a worker goes on; the same request later tells more.
    ``spared`` are the jobs that would be stopped under the tree in force and not under this one.
    """

    until: datetime
    whole: bool
    levels: list[LevelShift]
    over_ceiling: list[OverCeiling]
    undeliverable: list[Undeliverable]
    stopped: list[StoppedJob]
    spared: list[StoppedJob]
    barred: list[BarredJob]
    later: list[StartShift]
    earlier: list[StartShift]


def quotas(tree: QuotaTree, scheduled: Iterable[ScheduledEdit]) -> Quotas:
    return Quotas(tree.version, msgspec.convert(to_rows(tree), list[QuotaRow]), [edit(one) for one in scheduled])


def edit(row: ScheduledEdit) -> Edit:
    by = row.by.get_username() if row.by is not None else None
    told = [_change(one) for one in from_json(row.changes)]
    return Edit(row.pk, row.state, row.starts_at, row.ends_at, by, row.reason, row.note, told)


def revision(found: Revised) -> QuotaRevision:
    told = found.diff
    changes = [_change(one) for one in told.changes]
    return QuotaRevision(
        found.version, found.at, found.by, found.reason, found.edit_id, list(told.added), list(told.removed), changes
    )


def preview(found: QuotaPreview) -> Preview:
    return Preview(
        until=clock.to_datetime(found.until_ms),
        whole=found.whole,
        levels=[LevelShift(s.node, s.gpu_type, _standing(s.before), _standing(s.after)) for s in found.levels],
        over_ceiling=list(found.over),
        undeliverable=list(found.undeliverable),
        stopped=[_stopped(one) for one in found.stopped],
        spared=[_stopped(one) for one in found.spared],
        barred=[
            BarredJob(one.job or None, one.team, one.gpus, one.refusal.code.value, one.refusal.text)
            for one in found.barred
        ],
        later=[_shift(one) for one in found.later],
        earlier=[_shift(one) for one in found.earlier],
    )


def _change(one: Change) -> FieldChange:
    return FieldChange(one.node, one.field, one.before, one.after)


def _standing(line: Line | None) -> Standing | None:
    if line is None:
        return None
    return Standing(line.floor, line.ceiling, line.held, line.waiting, line.own, line.assured)


def _stopped(one: Stopped) -> StoppedJob:
    at, lost = clock.to_datetime(one.at_ms), one.lost_ms / 1000
    return StoppedJob(
        one.job or None, one.team, one.gpus, one.gpu_type, one.cause.value, one.for_job, one.for_team, at, lost
    )


def _shift(one: Shift) -> StartShift:
    def moment(at_ms: int | None) -> Any:
        return clock.to_datetime(at_ms) if at_ms is not None else None

    return StartShift(one.job or None, one.team, one.gpus, one.gpu_type, moment(one.before_ms), moment(one.after_ms))
