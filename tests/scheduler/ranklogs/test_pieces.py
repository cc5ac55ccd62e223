"""Which stretches of a log are kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ranklogs.pieces import MOST_PIECES, PIECE, SHORT_ONES, Fit, fit, go_on, put

K = 1024


@pytest.mark.parametrize(
    ("pieces", "start", "end", "expected"),
    [
        pytest.param([], 0, 10, Fit(0, 10), id="the first"),
        pytest.param([], 7, 10, Fit(7, 10), id="the first, of a log whose beginning is lost"),
        pytest.param([(0, 10)], 0, 10, None, id="the same again"),
        pytest.param([(0, 10)], 0, 8, None, id="an older one, late"),
        pytest.param([(0, 10)], 0, 30, Fit(0, 30, 1), id="a short one with more behind it"),
        pytest.param([(0, 5), (5, 9), (9, 10)], 5, 30, Fit(5, 30, 2), id="several short ones with more behind them"),
        pytest.param([(0, 5), (7, 9)], 0, 30, Fit(9, 30), id="short ones with a gap between them stay"),
        pytest.param([(0, PIECE)], 0, PIECE + 5, Fit(PIECE, PIECE + 5), id="a whole one stays; what is new follows"),
        pytest.param([(0, 10)], 10, 30, Fit(10, 30), id="the next"),
        pytest.param([(0, 10)], 5, 30, Fit(10, 30), id="overlapping"),
        pytest.param([(0, 10)], 20, 30, Fit(20, 30), id="past a gap"),
        pytest.param([(0, PIECE), (PIECE, PIECE + 9)], 3, 40, None, id="of long ago"),
        pytest.param([(0, 10)], 10, 10, None, id="empty"),
    ],
)
def test_what_is_new_in_a_stretch(pieces: list[tuple[int, int]], start: int, end: int, expected: Fit | None) -> None:
    assert fit(pieces, start, end) == expected


def test_the_next_starts_behind_the_last_until_there_are_many_short_ones() -> None:
    assert go_on([]) == (0, 0)
    assert go_on([(0, 10)]) == (10, 10)
    short = [(PIECE + at, PIECE + at + 1) for at in range(SHORT_ONES)]
    assert go_on([(0, PIECE), *short[:-1]]) == (PIECE + SHORT_ONES - 1, PIECE + SHORT_ONES - 1)
    assert go_on([(0, PIECE), *short]) == (PIECE, PIECE + SHORT_ONES)
    assert go_on([(0, 1), *short]) == (PIECE, PIECE + SHORT_ONES), "no further than to a gap"


def test_a_rank_that_writes_little_makes_few_pieces() -> None:
    pieces: list[tuple[int, int]] = []
    for _ in range(2000):
        start, kept = go_on(pieces)
        new = fit(pieces, start, kept + 100)
        assert new is not None
        pieces, _ = put(pieces, new, 1 << 30)
    assert pieces[-1][1] == 200_000
    assert len(pieces) <= 200_000 // PIECE + SHORT_ONES + 1


def test_past_the_limit_the_first_quarter_and_the_newest_stay() -> None:
    pieces: list[tuple[int, int]] = []
    gone: list[tuple[int, int]] = []
    for at in range(0, 100 * K, K):
        pieces, dropped = put(pieces, Fit(at, at + K), limit=16 * K)
        gone += dropped
    assert pieces[:4] == [(at * K, (at + 1) * K) for at in range(4)]
    assert pieces[4:] == [(at * K, (at + 1) * K) for at in range(88, 100)]
    assert sorted([*gone, *pieces]) == [(at * K, (at + 1) * K) for at in range(100)]


def test_many_tiny_pieces_are_bounded_too() -> None:
    pieces: list[tuple[int, int]] = [(at, at + 1) for at in range(MOST_PIECES)]
    pieces, gone = put(pieces, Fit(MOST_PIECES, MOST_PIECES + 1), limit=1 << 30)
    assert len(pieces) == MOST_PIECES
    assert len(gone) == 1


@given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 150_000)), max_size=60), st.integers(1, 400_000))
def test_whatever_comes_pieces_are_apart_ascending_and_bounded(sent: list[tuple[int, int]], limit: int) -> None:
    pieces: list[tuple[int, int]] = []
    for start, length in sent:
        before = go_on(pieces)[1]
        new = fit(pieces, start, start + length)
        if new is None:
            assert length == 0 or start + length <= before
            continue
        pieces, gone = put(pieces, new, limit)
        assert fit(pieces, start, start + length) is None, "sent again, nothing changes"
        assert not set(gone) & set(pieces)
        assert go_on(pieces)[1] == start + length
        assert all(one[1] <= other[0] for one, other in pairwise(pieces))
        assert sum(e - s for s, e in pieces[:-1]) <= limit, "one piece more than the limit at the most"
