from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from portal.heap import ALL_EVERY_S, Heap
from tests.nodes.speech import Clock


class Circle:
    """Something that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heap(clock: Clock) -> Iterator[Heap]:
    found = Heap(clock.s)
    found.keep_pauses_short()
    yield found
    found.leave_alone()


@pytest.mark.usefixtures("heap")
def test_what_outlives_a_full_collection_is_looked_at_no_more() -> None:
    gc.collect()
    set_aside = gc.get_freeze_count()
    assert set_aside > 10_000 > len(gc.get_objects())


@pytest.mark.usefixtures("heap")
def test_collections_of_what_is_young_set_nothing_aside() -> None:
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("heap")
def test_circles_that_were_never_set_aside_are_freed_as_ever() -> None:
    gc.collect()
    gone = weakref.ref(Circle())
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("heap")
def test_those_that_were_are_freed_when_all_is_looked_at_again(clock: Clock) -> None:
    circle = Circle()
    gone = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert gone() is not None
    clock.pass_s(ALL_EVERY_S)
    gc.collect()
    assert gone() is None


def test_left_alone_it_is_as_before() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    heap = Heap()
    heap.keep_pauses_short()
    gc.collect()
    assert gc.get_threshold() > before[0]
    heap.leave_alone()
    assert (gc.get_threshold(), gc.callbacks) == before and gc.get_freeze_count() == 0
    heap.leave_alone()
