"""Writes down, now and then, what the order by shares remembers of what is over: a new leader goes on with it.

It is no decision: nothing relies on it, and what the last minutes before a leader's death added to it may be lost.
"""

from __future__ import annotations

from scheduler.core.types import Usage
from scheduler.loader import Loader
from scheduler.store import codec, keys
from scheduler.store.base import Committed, Compare, Put, Store

EVERY_MS = 600_000


class UsageKeeper:
    """For one term of one leader; writes at most once in ``every_ms``."""

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self._written: dict[str, dict[str, int]] | None = None
        self._at_ms = 0

    def keep(self, store: Store, loader: Loader, token: int, now_ms: int) -> None:
        """Write it down if it is time and something ended since.

        Raises:
            StoreUnavailable: it is tried again after ``every_ms``.
        """
        if now_ms < self._at_ms + self._every_ms:
            return
        self._at_ms = now_ms
        ledger = loader.snapshot.ledger
        over = ledger.over()
        if (self._written is None and not over) or over == self._written:
            return
        usage = Usage(now_ms, ledger.faded(over, now_ms))
        done = store.commit([Compare(keys.LEADER, create=token)], [Put(keys.DECISION_USAGE, codec.encode(usage))])
        if isinstance(done, Committed) and done.ok:
            loader.apply_committed(keys.DECISION_USAGE, usage, done.revision)
            self._written = ledger.over()
