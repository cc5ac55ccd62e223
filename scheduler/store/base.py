"""The state store as the control plane sees it: linearizable, multi-key, watched, with leases.

Two implementations keep one contract (tests/scheduler/store): ``MemoryStore`` for scenarios, the simulator and tests,
``EtcdStore`` for a cluster. Keys are text, values bytes. A *revision* is a positive integer that rises with every
commit that changes something; an entry knows the revision that created it and the one that last changed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class StoreUnavailable(Exception):
    """The store did not answer. A commit that ends so may or may not have happened: read before trying again."""


class Compacted(Exception):
    """The watch's revision is no longer kept: load afresh and watch from there."""


class TooLarge(Exception):
    """The commit names more keys or holds more bytes than the store takes at once; nothing was done."""


class LeaseGone(Exception):
    """The lease has run out or was revoked; what was bound to it is gone."""


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """All entries under a prefix as they were at one revision, by key."""

    revision: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds if the key's modification revision is ``mod`` (0: the key is absent), or its creation revision ``create``.

    Exactly one of the two is given.
    """

    key: str
    mod: int | None = None
    create: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


Operation = Put | Delete
Transaction = tuple[Sequence[Compare], Sequence[Operation]]


@dataclass(frozen=True, slots=True)
class Committed:
    """``ok`` is whether every comparison held and all operations were done, at ``revision``; else nothing was done."""

    ok: bool
    revision: int


Outcome = Committed | StoreUnavailable | LeaseGone | TooLarge


@dataclass(frozen=True, slots=True)
class Changed:
    """One change: ``entry`` is None where the key was deleted."""

    key: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one or more whole commits, in order, up to and including ``revision``."""

    revision: int
    changes: tuple[Changed, ...]


class Watch(Protocol):
    """Changes under a prefix. Survives a restart of the store by itself and misses nothing, or says ``Compacted``."""

    def next(self, timeout_s: float) -> Batch | None:
        """The next batch, or None if none came within ``timeout_s`` (0: only what is there already) or it is closed.

        Raises:
            Compacted: changes were lost to compaction; the watch is closed.
            StoreUnavailable: nothing came, and the store cannot be reached now. The watch stays open and goes on by
                itself where it was; ``None`` therefore means that the store is there and silent.
        """

    def close(self) -> None: ...


class Store(Protocol):
    """Every method raises ``StoreUnavailable`` when the store does not answer in time."""

    def get(self, key: str) -> Entry | None: ...

    def read(self, prefix: str) -> Page:
        """Every entry whose key starts with ``prefix``, at one revision, sorted by key."""

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        """Do all operations in one step if all comparisons hold, else nothing. A key is named by at most one operation.

        Raises:
            LeaseGone: an operation names a lease that is gone; nothing was done.
            TooLarge: the store does not take so much in one step; nothing was done.
            ValueError: two operations name the same key; nothing was done.
        """

    def commit_many(self, commits: Sequence[Transaction]) -> list[Outcome]:
        """``commit()`` of each, several in flight at a time and in no promised order; one answer each, in theirs.

        What ``commit()`` would have raised stands in the answer's place: one failure does not hide the others.
        """

    def watch(self, prefix: str, from_revision: int) -> Watch:
        """Changes with a revision of at least ``from_revision``, in order."""

    def grant(self, ttl_s: int) -> int:
        """A new lease; the keys bound to it are deleted ``ttl_s`` seconds after its last sign of life."""

    def keep_alive(self, leases: Iterable[int]) -> frozenset[int]:
        """Renew the leases; answers those among them that are gone."""

    def revoke(self, lease: int) -> None:
        """End the lease and delete what is bound to it; a lease that is gone already is no error."""

    def close(self) -> None: ...
