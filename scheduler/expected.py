"""The forecast of starts: made by one worker at a time, kept in Redis for whoever shows it.

Nothing depends on it. While it is missing, or Redis is, starts are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler import connections
from scheduler.core.forecast import forecast
from scheduler.core.scratch import records
from scheduler.core.types import Policy
from scheduler.picture import Picture
from scheduler.published import Published

KEY = "gangway:forecast"
LOCK = "gangway:forecasting"
KEPT_S = 60
"""A forecast that was not made anew for so long is none any more."""
COST_MS = 5000
SOON_MS = 15_000
"""A start that is expected within this time is told as one at any moment."""


@dataclass(frozen=True, slots=True)
class Expected:
    """When waiting jobs are expected to start, by the limits of what runs, as of ``revision`` at ``made_ms``."""

    revision: int = 0
    made_ms: int = 0
    until_ms: int = 0
    starts: dict[str, int] = field(default_factory=dict)

    def start_ms(self, job_id: str, now_ms: int) -> int | None:
        """None where it is not known. A start whose moment has come is expected now."""
        at = self.starts.get(job_id)
        return None if at is None else max(at, now_ms)


def refresh(picture: Picture, policy: Policy, now_ms: int, ticking_ms: Callable[[], int]) -> Expected | None:
    """Make a forecast and publish it; None where another worker is at it, or the live state is away.

    Raises:
        redis.RedisError: Redis is away.
    """
    cache = connections.cache()
    if not picture.fresh or not cache.set(LOCK, "1", nx=True, px=4 * COST_MS):
        return None
    try:
        with picture.reading() as snapshot:
            snapshot.tell_time(max(now_ms, snapshot.now_ms))
            revision, seen = picture.revision, records(snapshot)
        ends = ticking_ms() + COST_MS
        made = forecast(seen, policy, go_on=lambda: ticking_ms() < ends)
        found = Expected(revision, made.made_ms, made.until_ms, made.starts)
        PUBLISHED.put([revision, made.made_ms, made.until_ms, made.starts], KEPT_S)
        return found
    finally:
        cache.delete(LOCK)


def expected(ticking_ms: Callable[[], int]) -> Expected:
    """The forecast as it is published; an empty one where there is none."""
    return PUBLISHED.get(ticking_ms)


PUBLISHED = Published(KEY, lambda raw: Expected(*raw), Expected())
