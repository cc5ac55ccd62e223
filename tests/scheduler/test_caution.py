"""A leader that finds something unreadable in the store: what it may have hidden is given to nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.core.types import EventKind, JobDecision, NodeIntent, Phase, Reason
from scheduler.store import keys
from scheduler.store.base import Delete, Put
from tests.scheduler.test_runtime import World


@pytest.fixture
def world() -> World:
    """Two hosts; ``old`` runs on one of them under a leader that has gone."""
    world = World()
    world.submit("old")
    former = world.process("former")
    world.step(former)
    former.resign()
    assert world.phases() == {"old": Phase.STARTING}
    return world


def garble(key: str) -> Callable[[World], object]:
    return lambda world: world.store.commit([], [Put(key, b"{")])


def take(key: str) -> Callable[[World], object]:
    return lambda world: world.store.commit([], [Delete(key)])


HIDING = [
    pytest.param(garble(keys.decision_job("old")), id="a decision cannot be read"),
    pytest.param(garble(keys.intent_job("old")), id="the wish of a gang cannot be read"),
    pytest.param(take(keys.intent_job("old")), id="the wish of a gang is gone"),
    pytest.param(garble(keys.INTENT_QUOTA), id="the quota tree cannot be read"),
    pytest.param(garble(keys.DECISION_RESERVATIONS), id="the holds cannot be read"),
]


@pytest.mark.parametrize("break_it", HIDING)
def test_nothing_starts_while_gpus_may_be_hidden(world: World, break_it: Callable[[World], object]) -> None:
    intact = {entry.key: entry.value for entry in world.store.read(keys.PREFIX).entries}
    break_it(world)
    world.submit("new", gpus=8)
    leader = world.process("next")
    done = world.step(leader)
    assert world.decision("new") == JobDecision(reason=Reason.SCHEDULER_DEGRADED)
    assert world.told(EventKind.REASON) == ["new"]
    assert not done.again, "a step that cannot help is not asked for"
    settled = world.store.read(keys.PREFIX).revision
    for _ in range(5):
        assert world.step(leader).committed == 0
    assert world.store.read(keys.PREFIX).revision == settled, "it is said once"

    for key in (keys.decision_job("old"), keys.intent_job("old"), keys.INTENT_QUOTA):
        world.store.commit([], [Put(key, intact[key])])
    world.store.commit([], [Delete(keys.DECISION_RESERVATIONS)])
    world.step(leader)
    bound = world.decision("new")
    assert (bound.phase, bound.reason) == (Phase.STARTING, None)
    world.check_no_gpu_twice()


def test_a_key_that_is_removed_counts_as_read(world: World) -> None:
    garble(keys.decision_job("old"))(world)
    world.submit("new")
    leader = world.process("next")
    world.step(leader)
    world.store.commit([], [Delete(keys.decision_job("old")), Delete(keys.intent_job("old"))])
    world.step(leader)
    assert world.decision("new").phase is Phase.STARTING


def test_a_gang_that_can_be_read_is_cancelled_meanwhile(world: World) -> None:
    world.submit("other")
    leader = world.process("next")
    world.step(leader)
    garble(keys.decision_job("old"))(world)
    world.cancel("other")
    world.step(leader)
    assert world.decision("other").phase in {Phase.STOPPING, Phase.CANCELLED}


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(keys.intent_job("waits"), id="the wish of a job that holds nothing"),
        pytest.param(keys.intent_node("n3"), id="an inventory"),
        pytest.param(keys.report("n1"), id="a report"),
        pytest.param(keys.decision_node("n1"), id="a decision about a node"),
    ],
)
def test_other_things_unreadable_concern_themselves_alone(world: World, key: str) -> None:
    world.put(keys.intent_node("n3"), NodeIntent("n3", "az1", "r1", "H100"))
    world.submit("waits", gpus=32)
    garble(key)(world)
    world.submit("new")
    leader = world.process("next")
    world.step(leader)
    assert world.decision("new").phase is Phase.STARTING
    entry = world.store.get(key)
    assert entry is not None and entry.value == b"{", "what is not understood is not overwritten"
    assert not world.step(leader).again


def test_a_decision_that_becomes_unreadable_under_the_leader(world: World) -> None:
    leader = world.process("next")
    world.step(leader)
    garble(keys.decision_job("old"))(world)
    world.submit("new")
    world.step(leader)
    assert world.decision("new").reason is Reason.SCHEDULER_DEGRADED
