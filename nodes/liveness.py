"""Signs of life, gathered: many agents' leases renewed in one call to the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

from scheduler.store.base import Store, StoreUnavailable

LEASE_S = 30
"""How long a node counts as alive after its last sync: three times the longest wait between two of them."""


class Renewals:
    """Leases that await their renewal, and when each was last renewed for certain.

    ``monotonic_s`` is a clock that never steps back. A lease counts as renewed from the moment before the store was
    asked: it cannot end earlier than its TTL after that. Safe in threads.

    A store that is away ends no lease: etcd lets none run out without a quorum, and gives each its whole TTL anew when
    it has one again. So a lease that was in force when the store went away is in force until it is back. That holds
    for the store, not for a process that alone cannot reach it: such a process is not ready, and is sent no agents.
    """

    def __init__(self, store: Store, monotonic_s: Callable[[], float], lease_s: int = LEASE_S) -> None:
        self._store = store
        self._monotonic_s = monotonic_s
        self.lease_s = lease_s
        self._away_since_s: float | None = None
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

    @property
    def store_is_away(self) -> bool:
        """Whether the last renewals did not get through."""
        return self._away_since_s is not None

    def renewed_s(self, lease: int) -> float | None:
        """Since when the lease has its whole TTL for certain, by ``monotonic_s``; None if it is gone or unknown."""
        renewed_s, away_since_s = self._renewed_s.get(lease), self._away_since_s
        if renewed_s is None or away_since_s is None or renewed_s + self.lease_s <= away_since_s:
            return renewed_s
        return self._monotonic_s()

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
                if self._away_since_s is None:
                    self._away_since_s = asked_s
            raise
        self._settle(leases, gone, asked_s)
        return gone

    def _settle(self, leases: Iterable[int], gone: frozenset[int], asked_s: float) -> None:
        with self._lock:
            self._away_since_s = None
            for lease in leases:
                if lease in gone:
                    self._renewed_s.pop(lease, None)
                else:
                    self._renewed_s[lease] = asked_s
