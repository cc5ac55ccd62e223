"""Who a node token belongs to, remembered for a while: over a hundred syncs a second do not ask PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection

from nodes.selectors import Identity, identity_of

TTL_S = 60.0
"""How long a token that was taken back may still be believed, and inventory that changed may be unknown."""
DENIED_TTL_S = 1.0
"""How long a false token is refused unasked. Short: an agent may have sent its token before it registered."""
CAPACITY = 20_000
"""Tokens remembered, false ones among them; the ones looked up longest ago go first."""


class Identities:
    """Tokens' hashes with their nodes, or None for a hash that nobody has. ``monotonic_s`` never steps back."""

    def __init__(
        self,
        monotonic_s: Callable[[], float],
        look_up: Callable[[str], Identity | None] = identity_of,
        capacity: int = CAPACITY,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._look_up = look_up
        self._capacity = capacity
        self._known: dict[str, tuple[Identity | None, float]] = {}

    def recall(self, hashed: str) -> tuple[Identity | None, bool]:
        """The token's node, and whether that is known without asking the database."""
        identity, until_s = self._known.get(hashed, (None, 0.0))
        return identity, self._monotonic_s() < until_s

    def look_up(self, hashed: str) -> Identity | None:
        """Ask the database, and remember the answer. Calls the database: not for an event loop."""
        try:
            identity = self._look_up(hashed)
        finally:
            # Back to the pool: this thread belongs to no request that would return it.
            connection.close()
        self._known.pop(hashed, None)
        self._known[hashed] = (identity, self._monotonic_s() + (TTL_S if identity else DENIED_TTL_S))
        while len(self._known) > self._capacity:
            self._known.pop(next(iter(self._known)), None)
        return identity
