"""The ledger, written: events in, lines out, in the caller's transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from quotas import models
from quotas.ledger import book
from quotas.ledger.book import Account, Book, Guarantees, Source, Stage
from quotas.rows import from_rows
from scheduler.core.types import EventKind, QuotaTree

KINDS = (EventKind.BIND, EventKind.START, EventKind.STOP, EventKind.RELEASE)
"""The events that the ledger is written from."""


@dataclass(frozen=True, slots=True)
class Told:
    """One of ``KINDS`` of a job that is known. ``gpu_type`` is for binds that do not name theirs."""

    source: Source
    kind: EventKind
    at_ms: int
    account: Account
    attempt: int
    gpu_type: str
    detail: dict[str, Any]


def began() -> bool:
    return models.LedgerMark.objects.exists()


def begin() -> None:
    """From now on there is a ledger."""
    models.LedgerMark.objects.get_or_create(pk=1)


def charge(events: Sequence[Told]) -> int:
    """Write the lines that these events, none of which was told before, lead to; answers how many.

    What other transaction writes the ledger or its sums is waited for.
    """
    if not events:
        return 0
    mark = models.LedgerMark.objects.select_for_update().get(pk=1)
    trees = deque(models.QuotaRevision.objects.filter(version__gt=mark.quota_version).order_by("version"))
    teams = {event.account.team for event in events}
    rows = models.Holding.objects.select_related("team")
    held = [_holding(row) for row in (rows if trees else rows.filter(team__name__in=teams))]
    now = models.QuotaRevision.objects.filter(version=mark.quota_version).first()
    past = _past({event.account.job for event in events if event.detail.get("lost_ms")})
    writing = Book(_guarantees(now), held, lambda job: past.get(job, ()), mark.place)
    before = {one.account.job: _fields(one) for one in held}
    for event in events:
        while trees and to_ms(trees[0].at) <= event.at_ms:
            _replant(writing, mark, trees.popleft())
        mark.place += event.kind is EventKind.BIND
        _tell(writing, event)
    _save(writing, before)
    mark.save()
    return len(writing.charges)


def _replant(writing: Book, mark: models.LedgerMark, revision: models.QuotaRevision) -> None:
    writing.replant(Source(f"quota/{revision.version}", 0), to_ms(revision.at), _guarantees(revision))
    mark.quota_version = revision.version


def _tell(writing: Book, event: Told) -> None:
    by, at_ms, job, attempt, detail = event.source, event.at_ms, event.account.job, event.attempt, event.detail
    if event.kind is EventKind.BIND:
        gpus = sum(len(indices) for indices in detail["gpus"].values())
        writing.bind(by, at_ms, event.account, attempt, detail.get("gpu_type") or event.gpu_type, gpus)
    elif event.kind is EventKind.START:
        writing.start(by, at_ms, job, attempt)
    elif event.kind is EventKind.STOP:
        writing.stop(by, at_ms, job, attempt)
    else:
        writing.release(by, at_ms, job, attempt, detail.get("lost_ms", 0))


def guarantees(tree: QuotaTree) -> Guarantees:
    """What the ledger needs of the tree. Parents come before their children in it."""
    paths: dict[str, tuple[str, ...]] = {}
    for node in tree.nodes:
        paths[node.name] = (*paths.get(node.parent or "", ()), node.name)
    return Guarantees({node.name: node.floor for node in tree.nodes}, paths)


def _guarantees(revision: models.QuotaRevision | None) -> Guarantees:
    return Guarantees() if revision is None else guarantees(from_rows(revision.tree, revision.version))


def _save(writing: Book, before: dict[str, tuple[Any, ...]]) -> None:
    names = {line.account.team for line in writing.charges} | {one.account.team for one in writing.held.values()}
    ids = dict(models.QuotaNode.objects.filter(name__in=names).values_list("name", "pk"))
    models.Charge.objects.bulk_create(
        (_line(line, ids) for line in writing.charges), ignore_conflicts=True, batch_size=2_000
    )
    gone = [job for job in before if job not in writing.held]
    if gone:
        models.Holding.objects.filter(pk__in=gone).delete()
    changed = [one for job, one in writing.held.items() if before.get(job) != _fields(one)]
    models.Holding.objects.bulk_create(
        (_holding_row(one, ids) for one in changed),
        update_conflicts=True,
        unique_fields=["job"],
        update_fields=[field.name for field in models.Holding._meta.fields if not field.primary_key],
    )


def _fields(one: book.Holding) -> tuple[Any, ...]:
    return one.attempt, one.path, one.place, one.since_ms, one.stage, one.floor, one.counted, one.asked_ms


def _past(jobs: set[str]) -> dict[str, list[book.Charge]]:
    """The lines of these jobs, in the order in which they were written. One query, none for no jobs."""
    found: dict[str, list[book.Charge]] = {}
    if jobs:
        for row in models.Charge.objects.filter(job__in=jobs).select_related("team").order_by("pk"):
            found.setdefault(row.job, []).append(_charge(row))
    return found


def _charge(row: models.Charge) -> book.Charge:
    return book.Charge(
        Source(row.entry, row.position),
        book.Kind(row.kind),
        Account(row.job, row.team.name, row.user, row.saves),
        row.attempt,
        tuple(row.path),
        row.gpu_type,
        to_ms(row.starts),
        to_ms(row.ends),
        row.floor,
        row.burst,
        row.lost,
        row.jobs,
    )


def _line(line: book.Charge, ids: dict[str, int]) -> models.Charge:
    starts = to_datetime(line.starts_ms)
    return models.Charge(
        entry=line.source.entry,
        position=line.source.position,
        kind=line.kind.value,
        job=line.account.job,
        attempt=line.attempt,
        team_id=ids[line.account.team],
        user=line.account.user,
        saves=line.account.saves,
        path=list(line.path),
        gpu_type=line.gpu_type,
        day=starts.date(),
        starts=starts,
        ends=to_datetime(line.ends_ms),
        floor=line.floor,
        burst=line.burst,
        lost=line.lost,
        jobs=line.jobs,
    )


def _holding(row: models.Holding) -> book.Holding:
    return book.Holding(
        Account(row.job, row.team.name, row.user, row.saves),
        row.attempt,
        tuple(row.path),
        row.gpu_type,
        row.gpus,
        row.place,
        to_ms(row.since),
        Stage(row.stage),
        row.floor,
        row.counted,
        None if row.asked is None else to_ms(row.asked),
    )


def _holding_row(one: book.Holding, ids: dict[str, int]) -> models.Holding:
    return models.Holding(
        job=one.account.job,
        attempt=one.attempt,
        team_id=ids[one.account.team],
        user=one.account.user,
        saves=one.account.saves,
        path=list(one.path),
        gpu_type=one.gpu_type,
        gpus=one.gpus,
        place=one.place,
        since=to_datetime(one.since_ms),
        stage=one.stage.value,
        floor=one.floor,
        counted=one.counted,
        asked=None if one.asked_ms is None else to_datetime(one.asked_ms),
    )


def to_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def to_datetime(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
