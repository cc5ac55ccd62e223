"""The state store in this process: for scenarios, the simulator and tests. The contract is ``base.Store``.

Its clock is handed in, so leases run out in virtual time. Nothing runs in the background: every call first ends the
leases that are over by then. A restart or an outage of the store is played with ``fail()`` and ``recover()``.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from scheduler.store.base import (
    Batch,
    Changed,
    Committed,
    Compacted,
    Compare,
    Delete,
    Entry,
    LeaseGone,
    Operation,
    Outcome,
    Page,
    Put,
    StoreUnavailable,
    TooLarge,
    Transaction,
)

HISTORY = 50_000
"""Revisions kept for watches. A watch that falls further behind is told ``Compacted``."""

LARGEST = 1_500_000
"""Bytes of values in one commit, as etcd's default takes."""


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    ends_ms: int
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """A store that lives as long as this object. Thread-safe.

    Args:
        now_ms: the clock that leases run by, in milliseconds.
        history: how many revisions a watch may lag behind before they are compacted.
    """

    def __init__(self, now_ms: Callable[[], int], history: int = HISTORY) -> None:
        self._now_ms = now_ms
        self._history = history
        self._news = threading.Condition(threading.RLock())
        self._down = False
        self._revision = 1
        self._entries: dict[str, Entry] = {}
        self._folders: dict[str, set[str]] = {}
        self._log: list[tuple[Changed, ...]] = []
        self._log_starts = 2  # the revision of _log[0]; revision 1 is the empty store, as in etcd
        self._leases: dict[int, _Lease] = {}
        self._last_lease = 0
        self._endings: list[tuple[int, int]] = []  # heap of (ends_ms, lease); a renewed lease is pushed on when popped

    # --- playing an outage

    def fail(self) -> None:
        """From now on every call raises ``StoreUnavailable``, a watch's ``next`` too."""
        with self._news:
            self._down = True

    def recover(self) -> None:
        """Answer again. As after a restart of etcd, the time to live of every lease starts anew."""
        with self._news:
            self._down = False
            now = self._now_ms()
            for lease in self._leases.values():
                lease.ends_ms = now + lease.ttl_ms
            self._news.notify_all()

    def compact(self, revision: int) -> None:
        """Forget the history up to and including ``revision``."""
        with self._news:
            forgotten = min(revision, self._revision) + 1 - self._log_starts
            if forgotten > 0:
                del self._log[:forgotten]
                self._log_starts += forgotten
            self._news.notify_all()

    # --- base.Store

    def get(self, key: str) -> Entry | None:
        with self._news:
            self._begin()
            return self._entries.get(key)

    def read(self, prefix: str) -> Page:
        with self._news:
            self._begin()
            keys: list[str] = []
            for folder, members in self._folders.items():
                if folder.startswith(prefix):
                    keys.extend(members)
                elif prefix.startswith(folder):
                    keys.extend(key for key in members if key.startswith(prefix))
            return Page(self._revision, tuple(self._entries[key] for key in sorted(keys)))

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        with self._news:
            self._begin()
            self._check(operations)
            if not all(map(self._holds, compares)):
                return Committed(False, self._revision)
            self._check_leases(operations)
            self._apply(operations)
            return Committed(True, self._revision)

    def commit_many(self, commits: Sequence[Transaction]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for compares, operations in commits:
            try:
                outcomes.append(self.commit(compares, operations))
            except (StoreUnavailable, LeaseGone, TooLarge) as failure:
                outcomes.append(failure)
        return outcomes

    def watch(self, prefix: str, from_revision: int) -> MemoryWatch:
        if from_revision < 1:
            raise ValueError("a watch begins at revision 1 or later")
        with self._news:
            self._begin()
        return MemoryWatch(self, prefix, from_revision)

    def grant(self, ttl_s: int) -> int:
        with self._news:
            self._begin()
            self._last_lease += 1
            lease = _Lease(ttl_s * 1000, self._now_ms() + ttl_s * 1000)
            self._leases[self._last_lease] = lease
            heapq.heappush(self._endings, (lease.ends_ms, self._last_lease))
            return self._last_lease

    def keep_alive(self, leases: Iterable[int]) -> frozenset[int]:
        with self._news:
            self._begin()
            gone: set[int] = set()
            now = self._now_ms()
            for number in leases:
                lease = self._leases.get(number)
                if lease is None:
                    gone.add(number)
                else:
                    lease.ends_ms = now + lease.ttl_ms
            return frozenset(gone)

    def revoke(self, lease: int) -> None:
        with self._news:
            self._begin()
            self._end(lease)

    def close(self) -> None:
        """Nothing is open."""

    # --- inside, under the lock

    def _begin(self) -> None:
        if self._down:
            raise StoreUnavailable("the memory store was told to fail")
        if self._endings and self._endings[0][0] <= self._now_ms():
            self._end_what_is_over()

    def _end_what_is_over(self) -> None:
        now = self._now_ms()
        while self._endings and self._endings[0][0] <= now:
            _, number = heapq.heappop(self._endings)
            lease = self._leases.get(number)
            if lease is None:
                continue
            if lease.ends_ms <= now:
                self._end(number)
            else:
                heapq.heappush(self._endings, (lease.ends_ms, number))

    def _end(self, number: int) -> None:
        lease = self._leases.pop(number, None)
        if lease is not None:
            self._apply([Delete(key) for key in sorted(lease.keys)])

    def _check(self, operations: Sequence[Operation]) -> None:
        if len(operations) > 1 and len({operation.key for operation in operations}) < len(operations):
            raise ValueError("two operations of one commit name the same key")
        size = sum([len(operation.value) for operation in operations if isinstance(operation, Put)])
        if size > LARGEST:
            raise TooLarge(f"{size} bytes in one commit; {LARGEST} are taken")

    def _check_leases(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self._leases:
                raise LeaseGone(f"lease {operation.lease} of {operation.key} is gone")

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key)
        if compare.mod is not None:
            return compare.mod == (entry.mod_revision if entry is not None else 0)
        return compare.create == (entry.create_revision if entry is not None else 0)

    def _apply(self, operations: Sequence[Operation]) -> None:
        revision = self._revision + 1
        changes: list[Changed] = []
        for operation in operations:
            if isinstance(operation, Put):
                changes.append(Changed(operation.key, self._put(operation, revision)))
            elif operation.key in self._entries:
                self._delete(operation.key)
                changes.append(Changed(operation.key, None))
        if changes:
            self._revision = revision
            self._log.append(tuple(changes))
            if len(self._log) > 2 * self._history:
                self.compact(revision - self._history)
            self._news.notify_all()

    def _put(self, put: Put, revision: int) -> Entry:
        key = put.key
        before = self._entries.get(key)
        if before is None:
            self._folders.setdefault(_folder(key), set()).add(key)
        elif before.lease and before.lease != put.lease:
            self._leases[before.lease].keys.discard(key)
        if put.lease:
            self._leases[put.lease].keys.add(key)
        created = revision if before is None else before.create_revision
        entry = self._entries[key] = Entry(key, put.value, created, revision, put.lease)
        return entry

    def _delete(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._folders[_folder(key)].discard(key)
        if entry.lease in self._leases:
            self._leases[entry.lease].keys.discard(key)

    # --- for MemoryWatch

    def _since(self, prefix: str, revision: int) -> Batch | None:
        """The changes under ``prefix`` from ``revision`` to now; None if there are none."""
        self._begin()
        if revision < self._log_starts and revision <= self._revision and self._log_starts > 2:
            raise Compacted(f"revision {revision} is compacted, {self._log_starts} is the oldest kept")
        commits = self._log[max(0, revision - self._log_starts) :]
        changes = tuple(change for commit in commits for change in commit if change.key.startswith(prefix))
        return Batch(self._revision, changes) if changes else None

    def _wait(self, timeout_s: float) -> None:
        """Until something is committed, a lease may have run out, or the time is over."""
        if self._endings:
            timeout_s = min(timeout_s, max(0.001, (self._endings[0][0] - self._now_ms()) / 1000))
        self._news.wait(timeout_s)


class MemoryWatch:
    """``base.Watch`` over a ``MemoryStore``."""

    def __init__(self, store: MemoryStore, prefix: str, from_revision: int) -> None:
        self._store = store
        self._prefix = prefix
        self._next_revision = from_revision
        self._closed = False

    def next(self, timeout_s: float) -> Batch | None:
        until = monotonic() + timeout_s
        with self._store._news:
            while not self._closed:
                batch = self._poll()
                left = until - monotonic()
                if batch is not None or left <= 0:
                    return batch
                self._store._wait(left)
        return None

    def _poll(self) -> Batch | None:
        try:
            batch = self._store._since(self._prefix, self._next_revision)
        except Compacted:
            self._closed = True
            raise
        self._next_revision = max(self._next_revision, self._store._revision + 1)
        return batch

    def close(self) -> None:
        with self._store._news:
            self._closed = True
            self._store._news.notify_all()


def _folder(key: str) -> str:
    return key[: key.rfind("/") + 1]
