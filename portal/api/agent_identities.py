"""Who a node token belongs to, remembered: over a hundred syncs a second do not ask PostgreSQL.

Agents must get through while PostgreSQL is away, or its outage would end the leases of every node. So a good token
stays good until a refresh that worked no longer finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from django.db import connection

from nodes.selectors import Identity, identities, identity_of

REFRESH_EVERY_S = 30.0
"""How long a token that was taken back may still be believed, and inventory that changed may be unknown."""
DENIED_FOR_S = 1.0
"""How long a false token is refused unasked. Short: an agent may have sent its token before it registered."""
DENIED_MOST = 4096
"""False tokens remembered; the ones looked up longest ago go first."""


class Identities:
    """Tokens' hashes with their nodes. ``refresh`` and ``look_up`` call the database: not for an event loop.

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
    ) -> None:
        self._monotonic_s = monotonic_s
        self._look_up = look_up
        self._everybody = everybody
        self._good: dict[str, Identity] = {}
        self._denied_until_s: dict[str, float] = {}
        self._asking = Lock()

    def recall(self, hashed: str) -> tuple[Identity | None, bool]:
        """The token's node or None, and whether that is known without asking the database."""
        identity = self._good.get(hashed)
        return identity, identity is not None or self._monotonic_s() < self._denied_until_s.get(hashed, 0.0)

    def refresh(self) -> None:
        """Learn every token anew; one that is gone is no longer believed."""
        with self._asking:
            try:
                self._good = dict(self._everybody())
            finally:
                _give_back()

    def look_up(self, hashed: str) -> Identity | None:
        """The token's node, from the database unless somebody else has just asked for it."""
        with self._asking:
            identity, known = self.recall(hashed)
            if known:
                return identity
            try:
                identity = self._look_up(hashed)
            finally:
                _give_back()
            if identity is None:
                self._deny(hashed)
            else:
                self._good[hashed] = identity
            return identity

    def _deny(self, hashed: str) -> None:
        self._denied_until_s.pop(hashed, None)
        self._denied_until_s[hashed] = self._monotonic_s() + DENIED_FOR_S
        while len(self._denied_until_s) > DENIED_MOST:
            del self._denied_until_s[next(iter(self._denied_until_s))]


def _give_back() -> None:
    """Return the connection to the pool: the thread belongs to no request that would."""
    connection.close()
