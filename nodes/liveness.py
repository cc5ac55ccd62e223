"""Signs of life, gathered: many agents' leases renewed in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

from scheduler.store.base import Store, StoreUnavailable


class Renewals:
    """Leases that await their renewal, and when each was last renewed for certain.

    ``monotonic_s`` is a clock that never steps back. A lease counts as renewed from the moment before the store was
    asked: it cannot end earlier than its TTL after that. Safe in threads.
    """

    def __init__(self, store: Store, monotonic_s: Callable[[], float]) -> None:
        self._store = store
        self._monotonic_s = monotonic_s
        self._lock = Lock()
        self._waiting: set[int] = set()
        self._renewed_s: dict[int, float] = {}

    def ask(self, lease: int) -> None:
        """The lease's node has given a sign of life: renew it with the next ``send``."""
        with self._lock:
            self._waiting.add(lease)

    def granted(self, lease: int, asked_s: float) -> None:
        """The lease is new, granted by a call that began at ``asked_s``."""
        with self._lock:
            self._renewed_s[lease] = asked_s

    def renewed_s(self, lease: int) -> float | None:
        """When the lease was last renewed for certain, by ``monotonic_s``; None if it never was, or is gone."""
        return self._renewed_s.get(lease)

    def forget(self, lease: int) -> None:
        """Nobody asks for the lease any more."""
        with self._lock:
            self._waiting.discard(lease)
            self._renewed_s.pop(lease, None)

    def send(self) -> frozenset[int]:
        """Renew every waiting lease; answers those that are gone.

        Raises:
            StoreUnavailable: none is known to be renewed; all of them wait for the next call.
        """
        with self._lock:
            leases, self._waiting = self._waiting, set()
        if not leases:
            return frozenset()
        asked_s = self._monotonic_s()
        try:
            gone = self._store.keep_alive(leases)
        except StoreUnavailable:
            with self._lock:
                self._waiting |= leases
            raise
        self._settle(leases, gone, asked_s)
        return gone

    def _settle(self, leases: Iterable[int], gone: frozenset[int], asked_s: float) -> None:
        with self._lock:
            for lease in leases:
                if lease in gone:
                    self._renewed_s.pop(lease, None)
                else:
                    self._renewed_s[lease] = asked_s
