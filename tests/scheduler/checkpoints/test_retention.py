"""Which checkpoints go, in which order, and what never goes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.checkpoints.models import State
from scheduler.checkpoints.retention import spare
from tests.objects import Faults
from tests.scheduler.checkpoints.conftest import Shelf


@dataclass
class One:
    attempt: int
    step: int
    state: str


def line(states: str) -> list[One]:
    """The newest first: g(ood), t(orn)."""
    named = {"g": State.GOOD, "t": State.TORN}
    return [One(1, len(states) - at, named[letter]) for at, letter in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "keep", "goes"),
    [
        pytest.param("ggggg", 3, [3, 4], id="the oldest beyond the last three"),
        pytest.param("ggg", 3, [], id="as many as are kept"),
        pytest.param("tggg", 2, [3], id="a torn newest one stays until a good one comes"),
        pytest.param("gtgtg", 2, [1, 3, 4], id="older torn ones go with them"),
        pytest.param("ttttg", 1, [], id="the only good one stays however old"),
        pytest.param("gg", 0, [1], id="asked to keep none, the newest good one stays"),
        pytest.param("ttt", 3, [], id="none is good: nothing goes"),
    ],
)
def test_what_may_go(states: str, keep: int, goes: list[int]) -> None:
    assert spare(line(states), keep) == goes


@given(st.text("gt", max_size=12), st.integers(0, 5))
def test_the_newest_good_one_never_goes(states: str, keep: int) -> None:
    going = spare(line(states), keep)
    if "g" in states:
        assert states.index("g") not in going
    assert sum(letter == "g" for at, letter in enumerate(states) if at not in going) <= max(1, keep)


@pytest.mark.django_db
def test_pruning_removes_the_objects_and_keeps_the_row(shelf: Shelf) -> None:
    for step in (10, 20, 30, 40):
        shelf.report(shelf.save(step, files={"a": b"1", "b": b"2"}))
        shelf.look()
    shelf.look(5)
    assert shelf.states() == {"1-40": State.GOOD, "1-30": State.GOOD, "1-20": State.PRUNED, "1-10": State.PRUNED}
    assert sorted({key.partition("/")[0] for key in shelf.left()}) == ["a00001-s000000000030", "a00001-s000000000040"]


@pytest.mark.django_db
def test_neighbours_are_never_touched(shelf: Shelf) -> None:
    mine = shelf.below
    for key in (f"{mine.key}notes.txt", f"{mine.key.rstrip('/')}X/file", "team/run/other/file"):
        shelf.objects.put(type(mine)(mine.bucket, key), b"stays")
    for step in (10, 20, 30):
        shelf.report(shelf.save(step))
    shelf.look()
    shelf.look(5)
    left = [one.key for one in shelf.objects.below(type(mine)(mine.bucket, ""))]
    assert sum(not key.startswith(f"{mine.key}a0") for key in left) == 3
    assert shelf.states()["1-10"] == State.PRUNED


@pytest.mark.django_db
def test_a_pruning_that_is_cut_off_leaves_no_checkpoint_and_goes_on_later(shelf: Shelf, faults: Faults) -> None:
    for step in (10, 20, 30):
        shelf.report(shelf.save(step))
    shelf.look(0)
    faults.status, faults.only = 500, "GET"
    shelf.look(5)
    assert shelf.states()["1-10"] == State.PRUNING
    faults.heal()
    assert "a00001-s000000000010/manifest.json" not in shelf.left(), "its manifest went first"
    assert "a00001-s000000000010/state" in shelf.left()
    shelf.look(60)
    assert shelf.states()["1-10"] == State.PRUNED
    assert not any(key.startswith("a00001-s000000000010/") for key in shelf.left())
