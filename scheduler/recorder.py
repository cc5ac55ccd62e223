"""Copies the journal from the state store into PostgreSQL, tells who watches, then deletes what is copied.

At-least-once: a crash between any two steps copies again what is there already, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import redis
import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection, transaction

from scheduler import charging, clock, history, wakeups
from scheduler.checkpoints import reported
from scheduler.core.types import Event, EventKind
from scheduler.models import Job, JobEvent
from scheduler.retirement import retire
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Entry, Store

log = structlog.get_logger(__name__)

BATCH = 200
"""Journal entries copied in one transaction; the entries of one commit stay together."""
DELETES = 100
"""Keys deleted in one commit: below the 128 operations that an etcd takes unless it is told otherwise."""

_ALONE = 0x6761_6E67_7265
"""The advisory lock that keeps the recorder alone."""


def record(store: Store, now_ms: int) -> int:
    """Copy what is in the journal by now; answers how many entries. Leaves off where another recorder works.

    Raises:
        StoreUnavailable, DatabaseError: what was not copied stays in the journal.
    """
    copied = 0
    for batch in _batches(store.read(keys.JOURNAL).entries):
        touched = _copy(batch, now_ms)
        if touched is None:
            return copied
        _tell(touched)
        _delete(store, batch)
        copied += len(batch)
    retire(store)
    return copied


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in the order of their commits, each commit whole, in lists of about ``BATCH``."""
    batch: list[Entry] = []
    ordered = sorted(entries, key=lambda entry: (entry.create_revision, entry.key))
    for _, commit in groupby(ordered, key=lambda entry: entry.create_revision):
        batch.extend(commit)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _delete(store: Store, batch: list[Entry]) -> None:
    for start in range(0, len(batch), DELETES):
        store.commit([], [Delete(entry.key) for entry in batch[start : start + DELETES]])


def _copy(batch: list[Entry], now_ms: int) -> dict[str, int] | None:
    """Insert the events and bring the rows of their jobs up to them; answers job → the revision that it is at now.

    None, and nothing is done, while another recorder copies.
    """
    told = [(entry, _events(entry, now_ms)) for entry in batch]
    named = {event.job for _, events in told for event in events if event.job is not None}
    with transaction.atomic():
        if not _alone():
            return None
        # In the order of their ids, as everybody who locks more than one.
        locked = Job.objects.select_for_update(of=("self",)).select_related("team")
        jobs = {job.pk: job for job in locked.filter(pk__in=named).order_by("pk")}
        charging.begin()
        _charge(told, jobs)
        rows = [_row(entry, place, event, jobs) for entry, events in told for place, event in enumerate(events)]
        JobEvent.objects.bulk_create(rows, ignore_conflicts=True)
        _bring_up(jobs, told)
        at = clock.to_datetime(now_ms)
        if reported.note((event for _, events in told for event in events), jobs, at):
            transaction.on_commit(wakeups.looking.ring)
        Job.objects.bulk_update(jobs.values(), history.FIELDS)
    return {job.pk: job.revision for job in jobs.values()}


def _charge(told: list[tuple[Entry, list[Event]]], jobs: dict[str, Job]) -> None:
    """Charge what is told for the first time. Entries are copied whole, and by nobody else meanwhile."""
    names = {entry.key: entry.key.removeprefix(keys.JOURNAL) for entry, _ in told}
    copied = set(JobEvent.objects.filter(entry__in=names.values()).values_list("entry", flat=True))
    new = [(names[entry.key], events) for entry, events in told if names[entry.key] not in copied]
    charging.charge(new, jobs)


def _alone() -> bool:
    """Take the advisory lock for the rest of the transaction: it goes with it, however that ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_ALONE])
        (alone,) = cursor.fetchone()
        return bool(alone)


def _bring_up(jobs: dict[str, Job], told: list[tuple[Entry, list[Event]]]) -> None:
    recorded = {job.pk: job.revision for job in jobs.values()}
    for entry, events in told:
        for event in events:
            job = jobs.get(event.job or "")
            if job is not None and entry.create_revision > recorded[job.pk]:
                history.tell(job, event)
                job.revision = entry.create_revision


def _events(entry: Entry, now_ms: int) -> list[Event]:
    """The entry's events. One that cannot be read is kept as an event of its own, so that nothing is lost with it."""
    try:
        return codec.decode(list[Event], entry.value)
    except codec.Garbled as error:
        log.error("a journal entry is not a list of events", key=entry.key, error=str(error))
        return [Event(EventKind.GARBLED, now_ms, detail={"error": str(error), "hex": entry.value.hex()})]


def _row(entry: Entry, position: int, event: Event, jobs: dict[str, Job]) -> JobEvent:
    """The event as it is kept. Of a job that PostgreSQL does not know, the name stays in the detail."""
    job = jobs.get(event.job or "")
    if event.job is not None and job is None:
        log.warning("an event is about a job that was never submitted here", job=event.job, key=entry.key)
    return JobEvent(
        entry=entry.key.removeprefix(keys.JOURNAL),
        position=position,
        revision=entry.create_revision,
        kind=event.kind.value,
        at=clock.to_datetime(event.at_ms),
        job=job,
        node=event.node or "",
        attempt=event.attempt,
        detail=event.detail if job is not None or event.job is None else {**event.detail, "job": event.job},
    )


def _tell(revisions: dict[str, int]) -> None:
    """Tell who watches these jobs. A message may be lost: each names the revision, and a page reads what it lacks."""
    layer = get_channel_layer()
    if layer is None or not revisions:
        return

    async def send() -> None:
        for job_id, revision in revisions.items():
            await layer.group_send(f"job.{job_id}", {"type": "job.changed", "id": job_id, "revision": revision})

    try:
        async_to_sync(send)()
    except (redis.RedisError, OSError) as error:
        log.warning("could not tell who watches", jobs=len(revisions), error=str(error))
