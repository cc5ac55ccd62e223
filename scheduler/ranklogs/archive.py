"""Where the pieces of ranks' logs lie in object storage: ``logs/<job>/<attempt>/<rank>/<start>-<end>``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scheduler.objects import Address, Objects
from scheduler.ranklogs.pieces import Piece

MOST_PIECE = 1024 * 1024
"""Bytes of a piece that is read back; those that are taken are smaller."""
PUTS_AT_ONCE = 12


@dataclass(frozen=True, slots=True)
class Log:
    """Names the log of one rank of one attempt."""

    job: str
    attempt: int
    rank: int


class Archive:
    """The pieces, in one bucket. Every verb raises ObjectsUnavailable."""

    def __init__(self, objects: Callable[[], Objects], bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket
        self._is_there = False
        self._putting = ThreadPoolExecutor(PUTS_AT_ONCE, thread_name_prefix="logs-puts")

    def put(self, new: Sequence[tuple[Log, Piece, bytes]]) -> None:
        """Keep these pieces, several at a time, as storage takes no longer for them than for one. The same one again is
        the same."""
        if new and not self._is_there:
            self._objects().make_bucket(self._bucket)
            self._is_there = True
        for _ in self._putting.map(self._put, new):
            pass  # the first that failed is raised here

    def _put(self, new: tuple[Log, Piece, bytes]) -> None:
        log, piece, data = new
        self._objects().put(self._address(log, piece), data)

    def get(self, log: Log, piece: Piece) -> bytes:
        """The piece's bytes. Raises NoSuchObject, ObjectTooLarge."""
        return self._objects().get(self._address(log, piece), MOST_PIECE)

    def drop(self, pieces: Iterable[tuple[Log, Piece]]) -> None:
        """Remove these pieces."""
        self._objects().delete(self._bucket, [self._address(log, piece).key for log, piece in pieces])

    def drop_job(self, job: str) -> None:
        """Remove all that the ranks of the job have ever written."""
        objects = self._objects()
        below = Address(self._bucket, f"logs/{job}/")
        objects.delete(self._bucket, [one.key for one in objects.below(below)])

    def _address(self, log: Log, piece: Piece) -> Address:
        start, end = piece
        return Address(self._bucket, f"logs/{log.job}/{log.attempt}/{log.rank}/{start:015}-{end:015}")
