"""Who a node token belongs to, remembered for a while: over a hundred syncs a second do not ask PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from django.db import connection

from nodes.selectors import Identity, identities, identity_of

TTL_S = 60.0
"""How long a token that was taken back may still be believed, and inventory that changed may be unknown."""
DENIED_TTL_S = 1.0
"""How long a false token is refused unasked. Short: an agent may have sent its token before it registered."""
CAPACITY = 20_000
"""Tokens remembered, false ones among them; the ones looked up longest ago go first."""


class Identities:
    """Tokens' hashes with their nodes, or None for a hash that nobody has.

    Args:
        monotonic_s: a clock that never steps back.
        look_up: asks the database for one token.
        everybody: asks it for all of them.
    """

    def __init__(
        self,
        monotonic_s: Callable[[], float],
        look_up: Callable[[str], Identity | None] = identity_of,
        everybody: Callable[[], Mapping[str, Identity]] = identities,
        capacity: int = CAPACITY,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._look_up = look_up
        self._everybody = everybody
        self._capacity = capacity
        self._known: dict[str, tuple[Identity | None, float]] = {}
        self._asking = Lock()

    def recall(self, hashed: str) -> tuple[Identity | None, bool]:
        """The token's node, and whether that is known without asking the database."""
        identity, until_s = self._known.get(hashed, (None, 0.0))
        return identity, self._monotonic_s() < until_s

    def look_up(self, hashed: str) -> Identity | None:
        """Ask the database, and remember the answer. Calls the database: not for an event loop.

        Where a good token has run out, so have hundreds of others: all of them are asked for at once.
        """
        with self._asking:
            identity, known = self.recall(hashed)
            if known:
                return identity
            try:
                if identity is not None:
                    self._remember_everybody()
                if not self.recall(hashed)[1]:
                    self._remember(hashed, self._look_up(hashed))
            finally:
                # Back to the pool: this thread belongs to no request that would return it.
                connection.close()
        return self.recall(hashed)[0]

    def _remember_everybody(self) -> None:
        for hashed, identity in self._everybody().items():
            self._remember(hashed, identity)

    def _remember(self, hashed: str, identity: Identity | None) -> None:
        self._known.pop(hashed, None)
        self._known[hashed] = (identity, self._monotonic_s() + (TTL_S if identity else DENIED_TTL_S))
        while len(self._known) > self._capacity:
            self._known.pop(next(iter(self._known)), None)
