"""Which stretches of a rank's log are kept: ascending, apart, each (start, end) in bytes of what it wrote. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PIECE = 64 * 1024
"""A piece shorter than this may be replaced by a longer one with the same start."""
MOST_PIECES = 1024

Piece = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fit:
    """What of an incoming stretch is new, and whether it replaces the last piece or follows it."""

    start: int
    end: int
    replaces: bool = False


def fit(pieces: Sequence[Piece], start: int, end: int) -> Fit | None:
    """How the stretch from ``start`` to ``end`` fits behind ``pieces``; None where nothing in it is new."""
    if end <= start:
        return None
    if not pieces:
        return Fit(start, end)
    last_start, last_end = pieces[-1]
    if end <= last_end:
        return None
    if start == last_start and last_end - last_start < PIECE:
        return Fit(start, end, replaces=True)
    return Fit(max(start, last_end), end)


def put(pieces: Sequence[Piece], new: Fit, limit: int) -> tuple[list[Piece], list[Piece]]:
    """The pieces with ``new`` among them, and those that go for it: the one replaced, and what is past the limit.

    Of a log longer than ``limit`` bytes the first quarter stays, and the newest of the rest.
    """
    gone = [pieces[-1]] if new.replaces else []
    kept = [*(pieces[:-1] if new.replaces else pieces), (new.start, new.end)]
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
    start, end = pieces[-1]
    return (start if end - start < PIECE else end), end


def _head(pieces: Sequence[Piece], most: int) -> int:
    """How many of the first pieces stay whatever comes."""
    size = 0
    for count, (start, end) in enumerate(pieces):
        size += end - start
        if size > most:
            return count
    return len(pieces)
