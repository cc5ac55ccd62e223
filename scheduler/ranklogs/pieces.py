"""Which stretches of a rank's log are kept: ascending, apart, each (start, end) in bytes of what it wrote. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PIECE = 64 * 1024
"""Pieces at the end of a log that are together shorter than this may be replaced by a longer one."""
SHORT_ONES = 8
"""So many of them, and they are asked for again as one: a rank that writes little makes few objects."""
MOST_PIECES = 1024

Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fit:
    """What of an incoming stretch is new, and how many of the last pieces it replaces; 0: it follows them."""

    start: int
    end: int
    replaces: int = 0


def fit(pieces: Sequence[Piece], start: int, end: int) -> Fit | None:
    """How the stretch from ``start`` to ``end`` fits behind ``pieces``; None where nothing in it is new."""
    if end <= start:
        return None
    if not pieces:
        return Fit(start, end)
    last_end = pieces[-1][1]
    if end <= last_end:
        return None
    for back in range(1, _short_ones(pieces) + 1):
        if pieces[-back][0] == start:
            return Fit(start, end, replaces=back)
    return Fit(max(start, last_end), end)


def put(pieces: Sequence[Piece], new: Fit, limit: int) -> tuple[list[Piece], list[Piece]]:
    """The pieces with ``new`` among them, and those that go for it: the ones replaced, and what is past the limit.

    Of a log longer than ``limit`` bytes the first quarter stays, and the newest of the rest.
    """
    stay = len(pieces) - new.replaces
    gone = list(pieces[stay:])
    kept = [*pieces[:stay], (new.start, new.end)]
    head = min(_head(kept, limit // 4), MOST_PIECES // 4)
    size = sum(end - start for start, end in kept)
    while len(kept) > head + 1 and (size > limit or len(kept) > MOST_PIECES):
        start, end = kept.pop(head)
        gone.append((start, end))
        size -= end - start
    return kept, gone


def go_on(pieces: Sequence[Piece]) -> tuple[int, int]:
    """Where the next piece should start, and up to where the log is taken care of."""
    if not pieces:
        return 0, 0
    short, end = _short_ones(pieces), pieces[-1][1]
    return (pieces[-short][0] if short >= SHORT_ONES else end), end


def _short_ones(pieces: Sequence[Piece]) -> int:
    """How many pieces at the end hang together and are shorter than one whole."""
    end = begins = pieces[-1][1]
    count = 0
    for start, stops in reversed(pieces):
        if stops != begins or end - start >= PIECE:
            break
        begins, count = start, count + 1
    return count


def _head(pieces: Sequence[Piece], most: int) -> int:
    """How many of the first pieces stay whatever comes."""
    size = 0
    for count, (start, end) in enumerate(pieces):
        size += end - start
        if size > most:
            return count
    return len(pieces)
