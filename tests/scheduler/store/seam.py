"""A store under test, with what the contract needs of the world around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from scheduler.store.base import Batch, Changed, Put, Store, StoreUnavailable, Watch

T = TypeVar("T")


@dataclass
class Seam:
    """``outage`` takes the store away, ``recovery`` brings it back with what was committed."""

    store: Store
    prefix: str
    sleep: Callable[[float], None]
    compact: Callable[[int], None]
    outage: Callable[[], None]
    recovery: Callable[[], None]
    watches: list[Watch] = field(default_factory=list)

    def key(self, name: str) -> str:
        return self.prefix + name

    def put(self, name: str, value: bytes = b"", lease: int = 0) -> int:
        done = self.store.commit([], [Put(self.key(name), value, lease)])
        assert done.ok
        return done.revision

    def watch(self, from_revision: int) -> Watch:
        watch = self.store.watch(self.prefix, from_revision)
        self.watches.append(watch)
        return watch

    def wait_until(self, holds: Callable[[], bool], within_s: float = 15) -> float:
        """Let time pass until ``holds()``; answers how much passed."""
        step_s, passed = 0.05, 0.0
        while not holds():
            assert passed < within_s, f"not within {within_s} s"
            self.sleep(step_s)
            passed += step_s
        return passed


class VirtualClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


def real_sleep(seconds: float) -> None:
    time.sleep(seconds)


def answered(call: Callable[[], T], within_s: float = 30) -> T:
    """The answer of ``call``, which may find the store away for a while: an election of etcd's takes its time."""
    until = time.monotonic() + within_s
    while True:
        try:
            return call()
        except StoreUnavailable:
            if time.monotonic() > until:
                raise


def drain(watch: Watch, count: int, timeout_s: float = 10) -> list[Changed]:
    """The next ``count`` changes, and that no more than those are there."""
    changes: list[Changed] = []
    while len(changes) < count:
        batch = watch.next(timeout_s)
        assert batch is not None, f"{len(changes)} changes came, {count} were awaited: {changes}"
        changes += batch.changes
    assert len(changes) == count
    return changes


def values(changes: list[Changed] | Batch) -> list[bytes | None]:
    listed = changes.changes if isinstance(changes, Batch) else changes
    return [change.entry.value if change.entry else None for change in listed]
