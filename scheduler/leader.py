"""Who may decide: one worker at a time, by a lease and a key in the store.

The create revision of the leader's key is the **fencing token**. It rises with every election, every commit of a leader
compares it, and agents refuse a lower one. So safety does not hang on clocks: a leader that slept through its lease
wakes up to commits that fail. The own clock only spares it the try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from scheduler.core.types import Event, EventKind
from scheduler.store import codec, keys
from scheduler.store.base import Compare, LeaseGone, Put, Store, StoreUnavailable

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of office. ``renewed_ms``: when, on the own monotonic clock, the last renewal was asked for."""

    token: int
    lease: int
    renewed_ms: int


class Leader:
    """This worker's claim to lead. One thread uses it.

    Args:
        name: what the leader's key says, for people; it need not be unique.
        ttl_s: how long a silent leader keeps others waiting.
        now_ms: the wall clock, for the event in the journal.
        ids: makes the journal's keys.
        monotonic_ms: a clock that nobody sets, for the lease; in virtual time the same as ``now_ms``.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        ids: Callable[[], str],
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        ttl_s: int = 15,
    ) -> None:
        self._store = store
        self._name = name
        self._ids = ids
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._ttl_ms = ttl_s * 1000
        self._term: _Term | None = None
        self._given_up: int | None = None  # a lease whose end could not be told to the store yet

    @property
    def token(self) -> int | None:
        """The fencing token while the lease cannot have run out, else None. Asks nobody."""
        term = self._term
        return term.token if term is not None and self._age_ms(term) < self._ttl_ms else None

    def hold(self) -> int | None:
        """Keep the lead, or take it if nobody has it. Call it at least every third of ``ttl_s``.

        The lease is renewed when a fifth of it has passed; until then the store is not asked.

        Returns:
            The fencing token, or None while another worker leads.

        Raises:
            StoreUnavailable: the store did not answer; whoever led before must not decide now.
        """
        if self._given_up is not None:
            self._store.revoke(self._given_up)
            self._given_up = None
        if self._term is not None and self._age_ms(self._term) * 5 >= self._ttl_ms:
            self._renew(self._term)
        if self._term is None:
            self._campaign()
        return self.token

    def resign(self) -> None:
        """Give the lead up, so that another worker, or this one under a new token, has it at once.

        Also the way out of an unknown outcome: nothing that was sent under the old token can happen after it.
        Never raises: what the store could not be told now, the next ``hold()`` tells it.
        """
        if self._term is None:
            return
        self._given_up, self._term = self._term.lease, None
        try:
            self._store.revoke(self._given_up)
            self._given_up = None
        except StoreUnavailable as error:
            log.warning("resigned, but the store does not know yet", error=str(error))

    def _renew(self, term: _Term) -> None:
        asked_ms = self._monotonic_ms()
        if term.lease in self._store.keep_alive([term.lease]):
            log.warning("lost the lead: the lease ran out", token=term.token)
            self._term = None
        else:
            self._term = _Term(term.token, term.lease, asked_ms)

    def _age_ms(self, term: _Term) -> int:
        return self._monotonic_ms() - term.renewed_ms

    def _campaign(self) -> None:
        if self._store.get(keys.LEADER) is not None:
            return
        asked_ms = self._monotonic_ms()
        lease = self._store.grant(self._ttl_ms // 1000)
        self._given_up = lease  # until the outcome is known: a key put without our knowledge goes with its lease
        token = self._elect(lease)
        if token is None:
            self._store.revoke(lease)
            self._given_up = None
            return
        self._given_up = None
        self._term = _Term(token, lease, asked_ms)
        log.info("took the lead", token=token, name=self._name)

    def _elect(self, lease: int) -> int | None:
        """Put the leader's key and the event that says so, if nobody else has."""
        event = Event(EventKind.LEADER, self._now_ms(), detail={"name": self._name})
        try:
            done = self._store.commit(
                [Compare(keys.LEADER, mod=0)],
                [
                    Put(keys.LEADER, self._name.encode(), lease),
                    Put(keys.journal(self._ids()), codec.encode([event])),
                ],
            )
        except LeaseGone:
            return None
        return done.revision if done.ok else None
