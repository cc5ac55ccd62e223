"""Intent on its way from PostgreSQL to the state store.

A row is written in the transaction that makes an intent true, delivered right after the commit, and again by a sweep
until it is gone. A crash between any two steps repeats work that changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from django.db import DatabaseError, transaction

from scheduler import connections, wakeups
from scheduler.core.types import (
    TERMINAL,
    JobIntent,
    NodeIntent,
    PolicyIntent,
    QuotaTree,
    RepairIntent,
    ReservationIntent,
)
from scheduler.models import Job, Outbox
from scheduler.store import codec, keys
from scheduler.store.base import Compare, Delete, Entry, Operation, Put, Store, StoreUnavailable, TooLarge

log = structlog.get_logger(__name__)

SWEEP_ROWS = 500
"""Rows that one sweep looks at, oldest first."""

TOGETHER = 64
"""Intents in one commit where the store does not take all of them at once: half of what etcd takes by default."""

REMOVED = b""
"""Stands in a row's value for a key that shall go: no record is encoded so."""

Intent = JobIntent | NodeIntent | QuotaTree | PolicyIntent | ReservationIntent | RepairIntent

_KINDS: dict[str, type[Intent]] = {
    keys.INTENT_JOBS: JobIntent,
    keys.INTENT_NODES: NodeIntent,
    keys.INTENT_QUOTA: QuotaTree,
    keys.INTENT_POLICY: PolicyIntent,
    keys.INTENT_REPAIR: RepairIntent,
    keys.INTENT_RESERVATIONS: ReservationIntent,
}


def enqueue(key: str, intent: Intent) -> Outbox:
    """Write the row and have it delivered right after the commit. Call it in the transaction that changes the rows.

    Raises:
        TransactionManagementError: there is no transaction, so the row could be there without what it stands for.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("an intent is enqueued in the transaction that makes it true")
    row = Outbox.objects.create(key=key, value=codec.encode(intent), version=intent.version)
    transaction.on_commit(lambda: _deliver_now(row))
    return row


def enqueue_all(intents: Mapping[str, NodeIntent | JobIntent]) -> None:
    """As ``enqueue`` for many nodes, or many new jobs, at once, by key: delivered together, so that no plan sees some
    without the others.

    Raises: as ``enqueue``.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("an intent is enqueued in the transaction that makes it true")
    if not intents:
        return
    rows = Outbox.objects.bulk_create(
        Outbox(key=key, value=codec.encode(intent), version=intent.version) for key, intent in intents.items()
    )
    transaction.on_commit(lambda: _deliver_all_now(rows))


def enqueue_removal(key: str, version: int) -> Outbox:
    """As ``enqueue``, but the key shall go. ``version`` is above that of every intent that it held so far.

    Raises: as ``enqueue``.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("an intent is removed in the transaction that makes it untrue")
    row = Outbox.objects.create(key=key, value=REMOVED, version=version)
    transaction.on_commit(lambda: _deliver_now(row))
    return row


def deliver(row: Outbox, store: Store) -> None:
    """Bring one row to the store and delete it. Two at once do no harm: the version decides what the key holds.

    Locks the row of the job that it is about, as the recorder does to write that a job has ended: a job whose end is
    recorded, and which may therefore have left the store, is not put back.

    Raises:
        StoreUnavailable, TooLarge: the row stays.
    """
    with transaction.atomic():
        if not _is_over(row.key):
            _bring(store, row.key, bytes(row.value), row.version)
        Outbox.objects.filter(pk=row.pk).delete()


def deliver_all(rows: Sequence[Outbox], store: Store) -> None:
    """Bring rows of nodes, or of new jobs, to the store, each of another key: all in one commit where the store takes
    so much at once. Locks the rows of the jobs as ``deliver`` does.

    Raises:
        StoreUnavailable, TooLarge: rows stay.
    """
    if len(rows) == 1:
        deliver(rows[0], store)
        return
    with transaction.atomic():
        over = _over(rows)
        nodes = rows[0].key.startswith(keys.INTENT_NODES)  # a job that is new is not in the store
        held = {entry.key: entry for entry in store.read(keys.INTENT_NODES).entries} if nodes else {}
        newer = [row for row in rows if row.key not in over and _version(held.get(row.key)) < row.version]
        if _commit_in_parts(store, newer, held):
            Outbox.objects.filter(pk__in=[row.pk for row in rows]).delete()
            return
    for row in rows:  # somebody else wrote one of the keys meanwhile
        deliver(row, store)


def _commit_in_parts(store: Store, rows: Sequence[Outbox], held: Mapping[str, Entry]) -> bool:
    try:
        return _commit_all(store, rows, held)
    except TooLarge:
        parts = [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]
        return False not in [_commit_all(store, part, held) for part in parts]


def _commit_all(store: Store, rows: Sequence[Outbox], held: Mapping[str, Entry]) -> bool:
    if not rows:
        return True
    compares = [Compare(row.key, mod=held[row.key].mod_revision if row.key in held else 0) for row in rows]
    return store.commit(compares, [Put(row.key, bytes(row.value)) for row in rows]).ok


def sweep(store: Store, limit: int = SWEEP_ROWS) -> int:
    """Deliver what a crash or an outage left behind, oldest first; answers how many rows were delivered."""
    delivered = 0
    for row in list(Outbox.objects.order_by("pk")[:limit]):
        try:
            deliver(row, store)
            delivered += 1
        except TooLarge as error:
            log.error("an intent is too large for the store and stays in the outbox", row=row.pk, error=str(error))
    return delivered


def _deliver_now(row: Outbox) -> None:
    """What runs after the commit: its failure is the sweep's work, never the answer to the request."""
    try:
        deliver(row, connections.store())
    except (StoreUnavailable, TooLarge, DatabaseError) as error:
        log.warning("an intent stays in the outbox", row=row.pk, error=str(error))
    else:
        wakeups.tick.ring()


def _deliver_all_now(rows: Sequence[Outbox]) -> None:
    """As ``_deliver_now``."""
    try:
        deliver_all(rows, connections.store())
    except (StoreUnavailable, TooLarge, DatabaseError) as error:
        log.warning("intents stay in the outbox", rows=len(rows), error=str(error))
    else:
        wakeups.tick.ring()


def _is_over(key: str) -> bool:
    """Whether the key is that of a job whose end is recorded. Locks the job's row."""
    if not key.startswith(keys.INTENT_JOBS):
        return False
    job = Job.objects.select_for_update().filter(pk=key.removeprefix(keys.INTENT_JOBS))
    return job.values_list("state", flat=True).first() in TERMINAL


def _over(rows: Sequence[Outbox]) -> set[str]:
    """The keys among those of the rows that are of jobs whose end is recorded. Locks the rows of the jobs."""
    names = [row.key.removeprefix(keys.INTENT_JOBS) for row in rows if row.key.startswith(keys.INTENT_JOBS)]
    if not names:
        return set()
    jobs = Job.objects.select_for_update().filter(pk__in=names).order_by("pk").values_list("pk", "state")
    return {keys.intent_job(name) for name, state in jobs if state in TERMINAL}


def _bring(store: Store, key: str, value: bytes, version: int) -> None:
    if value == REMOVED:
        _remove(store, key, version)
    else:
        _put(store, key, value, version)


def _remove(store: Store, key: str, version: int) -> None:
    """Take the key away, with what its node reported, unless it holds a later version: it was wished for again."""
    while True:
        mod, held = _held(store, key)
        if mod == 0 or held > version:
            return
        gone: list[Operation] = [Delete(key)]
        if key.startswith(keys.INTENT_NODES):
            gone.append(Delete(keys.report(key.removeprefix(keys.INTENT_NODES))))
        if store.commit([Compare(key, mod=mod)], gone).ok:
            return


def _put(store: Store, key: str, value: bytes, version: int) -> None:
    """Make the key hold this version or a later one; a first version is most likely not there yet.

    A commit that is not answered may happen at any later time. It compares that its job has not left the store since.
    """
    mod = 0
    mark = keys.left_job(key.removeprefix(keys.INTENT_JOBS)) if key.startswith(keys.INTENT_JOBS) else None
    stays = [Compare(mark, mod=0)] if mark is not None else []
    if version > 1:
        mod, held = _held(store, key)
        if held >= version:
            return
    while not store.commit([Compare(key, mod=mod), *stays], [Put(key, value)]).ok:
        mod, held = _held(store, key)
        if held >= version or (mark is not None and store.get(mark) is not None):
            return


def _held(store: Store, key: str) -> tuple[int, int]:
    """The key's mod revision and the version that it holds: (0, 0) when it is absent, version 0 when unreadable."""
    entry = store.get(key)
    return (0, 0) if entry is None else (entry.mod_revision, _version(entry))


def _version(entry: Entry | None) -> int:
    """The version of the intent that the entry holds; 0 where there is none, or none that can be read."""
    if entry is None:
        return 0
    try:
        return codec.decode(_kind(entry.key), entry.value).version
    except codec.Garbled as error:
        log.error("an intent in the store is no record and is put anew", key=entry.key, error=str(error))
        return 0


def _kind(key: str) -> type[Intent]:
    return next(kind for prefix, kind in _KINDS.items() if key.startswith(prefix))
