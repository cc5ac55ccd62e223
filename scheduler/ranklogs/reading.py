"""Reads ranks' logs back: which there are, a stretch of one, a whole one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.models import RankLog
from scheduler.objects import NoSuchObject
from scheduler.ranklogs.archive import Archive, Log
from scheduler.ranklogs.pieces import Piece

_CONTINUES, _LONGEST_CHARACTER = 0b10, 4


@dataclass(frozen=True, slots=True)
class Attempt:
    """The ranks of one attempt that have written something, ascending."""

    number: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a log without gaps. ``skipped`` bytes between what was asked for and ``start`` are not kept."""

    start: int
    data: bytes
    skipped: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def attempts(job_id: str) -> list[Attempt]:
    """What there is of a job, the newest attempt first. One query."""
    found: dict[int, list[int]] = {}
    rows = RankLog.objects.filter(job_id=job_id, size__gt=0).order_by("-attempt", "rank")
    for attempt, rank in rows.values_list("attempt", "rank"):
        found.setdefault(attempt, []).append(rank)
    return [Attempt(attempt, tuple(ranks)) for attempt, ranks in found.items()]


def find(job_id: str, attempt: int | None, rank: int) -> RankLog | None:
    """The log of a rank; of the newest attempt in which it has written something where none is named."""
    rows = RankLog.objects.filter(job_id=job_id, rank=rank)
    if attempt is not None:
        return rows.filter(attempt=attempt).first()
    return rows.filter(size__gt=0).order_by("-attempt").first()


def read(archive: Archive, row: RankLog, offset: int, most: int) -> Stretch:
    """Up to ``most`` bytes from ``offset`` on, or from where something is kept again, up to the next gap.

    A character of several bytes is not cut in two, unless the log ends in the middle of it.

    Raises:
        ObjectsUnavailable
    """
    start, data = offset, b""
    for piece in _from(row, offset):
        begins = max(piece[0], offset)
        if data and begins != start + len(data):
            break
        try:
            whole = archive.get(_log(row), piece)
        except NoSuchObject:  # it has been cut meanwhile
            continue
        if not data:
            start = begins
        data += whole[begins - piece[0] :]
        if len(data) >= most:
            break
    skipped = start - offset if data else max(0, row.size - offset)
    start = start if data else max(offset, row.size)
    more = start + len(data) < row.size or len(data) > most or not row.over
    return Stretch(start, _whole_characters(data[:most]) if more else data[:most], skipped)


def everything(archive: Archive, row: RankLog) -> Iterator[bytes]:
    """The whole log, with a line in place of each gap.

    Raises:
        ObjectsUnavailable
    """
    at = 0
    for piece in _from(row, 0):
        if piece[0] > at:
            yield b"\n[gangway: %d bytes are not kept]\n" % (piece[0] - at)
        at = piece[1]
        try:
            yield archive.get(_log(row), piece)
        except NoSuchObject:
            yield b"\n[gangway: %d bytes are not kept]\n" % (piece[1] - piece[0])


def _from(row: RankLog, offset: int) -> Iterator[Piece]:
    return ((start, end) for start, end in row.pieces if end > offset)


def _log(row: RankLog) -> Log:
    return Log(row.job_id, row.attempt, row.rank)


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a UTF-8 character at its end. Data that is no UTF-8 stays as it is."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte >> 6 == _CONTINUES:
            continue
        wants = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
        # All of it incomplete: nothing would ever be read.
        return data[:-back] if wants > back and back < len(data) else data
    return data
