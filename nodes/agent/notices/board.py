"""What stands at the moment, put together from every place where it is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from nodes.agent.notices.metadata import MetadataError
from scheduler.core.types import Notice, NoticeKind

log = structlog.get_logger(__name__)

Look = Callable[[], Awaitable[tuple[Notice, ...]]]


class Board:
    """The notices that stand. ``changed`` is called whenever they have become others. ``errors`` counts, by place, how
    often a metadata server could not be read or made no sense: what stood then still stands."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._by_place: dict[str, tuple[Notice, ...]] = {}
        self.errors: Counter[str] = Counter()
        self.current: tuple[Notice, ...] = ()

    @property
    def gone_at_ms(self) -> int | None:
        """When the host will be taken away for certain; None if nobody says so."""
        ends = (one.gone_at_ms for one in self.current if one.kind is NoticeKind.TERMINATE)
        return min((at for at in ends if at is not None), default=None)

    def put(self, place: str, notices: tuple[Notice, ...]) -> None:
        """What was read at ``place``, in the place of what stood there before."""
        self._by_place[place] = notices
        current = tuple(one for where in sorted(self._by_place) for one in self._by_place[where])
        if current != self.current:
            for notice in current:
                if notice not in self.current:
                    log.warning("a notice of the provider", kind=notice.kind.value, gone_at_ms=notice.gone_at_ms)
            self.current = current
            self._changed()

    def missed(self, place: str, error: MetadataError) -> None:
        self.errors[place] += 1
        if self.errors[place] == 1:
            # Not of each: on a host without a metadata server that would be one a second for ever.
            log.warning("the metadata server is of no help", place=place, error=str(error))


async def keep_looking(board: Board, place: str, look: Look, every_s: float, most_s: float) -> None:
    """Look again and again, ``every_s`` seconds after the last time; after errors later, up to ``most_s``."""
    misses = 0
    while True:
        try:
            board.put(place, await look())
            misses = 0
        except MetadataError as error:
            board.missed(place, error)
            misses = min(misses + 1, 16)
        pause_s = every_s if not misses else min(most_s, max(every_s, 0.25) * 2 ** (misses - 1))
        await asyncio.sleep(pause_s)
