from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.types import JobDecision, NodeDecision, NodeIntent, NodeReport, Phase, QuotaTree, Reservations
from scheduler.loader import Loader
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.world import World, running


@pytest.fixture
def world() -> World:
    return World()


def delete(world: World, key: str) -> None:
    world.store.commit([], [Delete(key)])


def test_a_load_takes_in_every_kind_of_record(world: World) -> None:
    world.wish("a")
    world.put(keys.decision_job("a"), running("n0"))
    world.put(keys.decision_node("n1"), NodeDecision(since_ms=7))
    world.put(keys.report("n1"), NodeReport("boot"))
    world.store.commit([], [Put(keys.alive("n1"), b"boot")])
    world.put(keys.INTENT_QUOTA, QuotaTree(version=3, open=True))
    world.put(keys.DECISION_RESERVATIONS, Reservations())
    loader = world.loader()
    snapshot = loader.snapshot
    assert snapshot.jobs["a"].decision == running("n0")
    node = snapshot.nodes["n1"]
    assert (node.decision, node.report, node.alive) == (NodeDecision(since_ms=7), NodeReport("boot"), True)
    assert not snapshot.nodes["n0"].alive
    assert loader.revision == world.store.read(keys.PREFIX).revision


def test_what_changes_after_the_load_comes_with_the_watch(world: World) -> None:
    loader = world.loader()
    world.wish("a")
    revision = world.put(keys.decision_job("a"), running("n0"))
    fed = loader.catch_up()
    assert loader.snapshot.jobs["a"].phase is Phase.RUNNING
    assert fed.keys == {keys.intent_job("a"), keys.decision_job("a")}
    assert (fed.revision, loader.revision, loader.mod(keys.decision_job("a"))) == (revision, revision, revision)
    assert not loader.catch_up()


def test_a_decision_that_comes_before_its_job_and_its_node_waits_for_them(world: World) -> None:
    loader = world.loader()
    world.put(keys.decision_job("a"), running("late"))
    loader.catch_up()
    world.put(keys.intent_node("late"), NodeIntent("late", "az1", "r1", "H100"))
    world.wish("a")
    loader.catch_up()
    assert loader.snapshot.jobs["a"].decision == running("late")
    assert loader.snapshot.nodes["late"].free_gpus == 0


def test_what_is_deleted_is_gone_and_what_is_made_anew_is_there(world: World) -> None:
    world.wish("a")
    world.put(keys.decision_job("a"), running("n0"))
    loader = world.loader()
    world.store.commit([], [Delete(keys.intent_job("a")), Delete(keys.decision_job("a"))])
    loader.catch_up()
    assert "a" not in loader.snapshot.jobs
    assert loader.mod(keys.decision_job("a")) == 0
    assert loader.snapshot.nodes["n0"].free_gpus == 8
    world.wish("a")
    loader.catch_up()
    assert loader.snapshot.jobs["a"].phase is Phase.PENDING


def test_the_echo_of_what_was_applied_at_once_changes_nothing(world: World) -> None:
    world.wish("a")
    loader = world.loader()
    key, decision = keys.decision_job("a"), running("n0")
    revision = world.put(key, decision)
    loader.apply_committed(key, decision, revision)
    assert loader.snapshot.jobs["a"].decision is decision
    assert not loader.catch_up()
    assert loader.snapshot.jobs["a"].decision is decision
    assert (loader.mod(key), loader.revision) == (revision, revision)


def test_the_echo_of_an_older_deletion_does_not_take_what_was_put_anew(world: World) -> None:
    world.wish("a")
    key, decision = keys.decision_job("a"), running("n0")
    world.put(key, running("n1"))
    loader = world.loader()
    delete(world, key)
    assert loader.await_news(0), "the deletion is on its way"
    loader.apply_committed(key, decision, world.put(key, decision))
    loader.catch_up()
    assert loader.snapshot.jobs["a"].decision == decision


def test_a_garbled_value_is_reported_and_the_last_good_one_stays(world: World) -> None:
    world.wish("a")
    key = keys.decision_job("a")
    good = world.put(key, running("n0"))
    loader = world.loader()
    world.store.commit([], [Put(key, b'{"phase": "DANCING"}')])
    world.wish("b")
    loader.catch_up()
    assert list(loader.garbled) == [key]
    assert "DANCING" in loader.garbled[key]
    assert loader.snapshot.jobs["a"].decision == running("n0")
    assert loader.mod(key) == good, "so that no commit relies on what was not understood"
    assert "b" in loader.snapshot.jobs
    world.put(key, running("n1"))
    loader.catch_up()
    assert (loader.garbled, loader.snapshot.jobs["a"].decision) == ({}, running("n1"))


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(keys.intent_job("x"), id="a wish"),
        pytest.param(keys.intent_node("n0"), id="an inventory"),
        pytest.param(keys.INTENT_QUOTA, id="the quota tree"),
        pytest.param(keys.report("n0"), id="a report"),
        pytest.param(keys.decision_node("n0"), id="a node's decision"),
        pytest.param(keys.DECISION_RESERVATIONS, id="the reservations"),
    ],
)
@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"[]", b"null", b'{"nodes": 7, "held": 7, "since_ms": "soon"}'])
def test_no_garbled_value_keeps_the_rest_from_being_loaded(world: World, key: str, raw: bytes) -> None:
    world.wish("a")
    world.store.commit([], [Put(key, raw)])
    loader = world.loader()
    assert key in loader.garbled
    assert "a" in loader.snapshot.jobs


def test_keys_of_other_layouts_are_passed_over(world: World) -> None:
    loader = world.loader()
    for key in ("journal/1", "leader", "intent/else", "intent/quota/deep", "new/thing"):
        world.store.commit([], [Put(keys.PREFIX + key, b"?")])
    fed = loader.catch_up()
    assert (fed.keys, loader.garbled) == (frozenset(), {})
    assert loader.revision == world.store.read(keys.PREFIX).revision


def test_falling_behind_compaction_means_loading_afresh(world: World) -> None:
    assert isinstance(world.store, MemoryStore)
    loader = world.loader()
    for version in range(3):
        world.wish("a", version=version + 1)
    world.store.compact(loader.revision + 2)
    assert loader.catch_up().afresh
    assert loader.snapshot.jobs["a"].intent.version == 3
    world.wish("b")
    assert loader.catch_up().keys == {keys.intent_job("b")}


def test_an_outage_is_told_and_then_made_up_for(world: World) -> None:
    assert isinstance(world.store, MemoryStore)
    loader = world.loader()
    world.wish("a")
    world.store.fail()
    with pytest.raises(StoreUnavailable):
        loader.catch_up()
    world.store.recover()
    loader.catch_up()
    assert "a" in loader.snapshot.jobs


def test_a_revision_that_does_not_arrive_is_an_outage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.loader.CATCH_UP_S", 0.05)
    loader = world.loader()
    with pytest.raises(StoreUnavailable, match="did not arrive"):
        loader.catch_up(through=loader.revision + 1)
    loader.catch_up(through=world.put(keys.decision_job("a"), JobDecision()))


def test_after_dropping_everything_is_loaded_again(world: World) -> None:
    world.wish("a")
    loader = world.loader()
    loader.drop()
    assert (loader.snapshot.jobs, loader.revision, loader.mod(keys.intent_job("a"))) == ({}, 0, 0)
    assert loader.catch_up().afresh
    assert "a" in loader.snapshot.jobs


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_following_the_watch_ends_where_loading_does(seed: int) -> None:
    world, chance = World(nodes=6), random.Random(seed)
    follower = world.loader()
    free = list(world.nodes)
    held: dict[str, str] = {}
    for _ in range(60):
        _something_happens(world, chance, free, held)
        if chance.random() < 0.3:
            follower.catch_up()
    follower.catch_up()
    assert _seen(follower) == _seen(world.loader())


def _something_happens(world: World, chance: random.Random, free: list[str], held: dict[str, str]) -> None:
    job, node = f"j{chance.randrange(5)}", chance.choice(world.nodes)
    match chance.randrange(5):
        case 0:
            world.wish(job, version=chance.randrange(1, 9))
        case 1 if job not in held and free:
            held[job] = free.pop()
            world.put(keys.decision_job(job), running(held[job]))
        case 2:
            if job in held:
                free.append(held.pop(job))
            world.store.commit([], [Delete(keys.intent_job(job)), Delete(keys.decision_job(job))])
        case 3:
            delete(world, keys.alive(node))
        case _:
            world.store.commit([], [Put(keys.alive(node), b"boot")])


def _seen(loader: Loader) -> object:
    snapshot = loader.snapshot
    jobs = {job.id: (job.intent, job.decision) for job in snapshot.jobs.values()}
    nodes = {node.name: (node.intent, node.alive, node.free_gpus) for node in snapshot.nodes.values()}
    return jobs, nodes, {key: loader.mod(key) for key in map(keys.decision_job, jobs)}, loader.revision


def test_a_value_is_decoded_as_it_was_encoded() -> None:
    assert codec.decode(JobDecision, codec.encode(running("n0", "n1"))) == running("n0", "n1")
