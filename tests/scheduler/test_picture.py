from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import Empty, Queue
from threading import Event

import pytest

from scheduler.core.types import JobDecision, JobIntent, JobSpec, NodeIntent, NodeReport, Phase, QuotaTree, Slice
from scheduler.picture import Picture, Touched
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put, StoreUnavailable
from scheduler.store.memory import MemoryStore

NODE = NodeIntent("n1", "az1", "r1", "H100")
JOB = JobIntent(JobSpec("j1", "vision", 8, "H100", 2, 3_600_000, 0))
BOUND = JobDecision(Phase.STARTING, attempt=1, fence=1, allocation=(Slice("n1", tuple(range(8))),), gpu_type="H100")
WAIT_S = 10.0


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def picture(store: MemoryStore, clock: Clock) -> Iterator[Picture]:
    picture = Picture(lambda: store, clock)
    yield picture
    picture.stop()


@pytest.fixture
def told(picture: Picture) -> Queue[Touched]:
    messages: Queue[Touched] = Queue()
    picture.listen(messages.put)
    return messages


def put(store: MemoryStore, key: str, record: object) -> int:
    return store.commit([], [Put(key, codec.encode(record))]).revision


def until(told: Queue[Touched], holds: Callable[[Touched], bool]) -> Touched:
    """The first message that ``holds``; fails when none comes."""
    while True:
        try:
            message = told.get(timeout=WAIT_S)
        except Empty:
            pytest.fail("the picture said nothing of the kind")
        if holds(message):
            return message


def test_nothing_can_be_read_before_the_first_load(picture: Picture) -> None:
    assert (picture.revision, picture.fresh, picture.stale_since_ms) == (0, False, None)
    with pytest.raises(StoreUnavailable), picture.reading():
        pass


def test_it_shows_what_is_there_and_follows_what_comes(
    picture: Picture, store: MemoryStore, told: Queue[Touched]
) -> None:
    put(store, keys.intent_node("n1"), NODE)
    picture.start()
    assert until(told, lambda message: message.everything).revision == 2
    assert picture.fresh
    revision = put(store, keys.intent_job("j1"), JOB)
    assert picture.wait_for(revision, WAIT_S)
    with picture.reading() as snapshot:
        assert snapshot.jobs["j1"].intent == JOB
        assert snapshot.nodes["n1"].intent == NODE


@pytest.mark.parametrize(
    ("key", "record", "jobs", "nodes"),
    [
        pytest.param(
            keys.intent_job("j2"), replace(JOB, spec=replace(JOB.spec, id="j2")), {"j2"}, set(), id="a new job"
        ),
        pytest.param(keys.report("n1"), NodeReport("b"), set(), {"n1"}, id="a report"),
        pytest.param(keys.intent_node("n2"), replace(NODE, name="n2"), set(), {"n2"}, id="a new node"),
        pytest.param(keys.decision_job("j1"), BOUND, {"j1"}, {"n1"}, id="a gang comes to its nodes"),
        pytest.param(keys.INTENT_QUOTA, QuotaTree(), set(), set(), id="the quota tree"),
    ],
)
def test_listeners_are_told_what_a_change_touches(
    picture: Picture,
    store: MemoryStore,
    told: Queue[Touched],
    key: str,
    record: object,
    jobs: set[str],
    nodes: set[str],
) -> None:
    put(store, keys.intent_node("n1"), NODE)
    put(store, keys.intent_job("j1"), JOB)
    picture.start()
    until(told, lambda message: message.everything)
    revision = put(store, key, record)
    message = until(told, lambda message: message.revision == revision)
    assert (set(message.jobs), set(message.nodes)) == (jobs, nodes)
    assert message.quota is (key == keys.INTENT_QUOTA)


@pytest.mark.parametrize(
    "operation", [Put(keys.decision_job("j1"), codec.encode(JobDecision())), None], ids=["released", "gone"]
)
def test_a_gang_that_leaves_touches_the_nodes_that_it_sat_on(
    picture: Picture, store: MemoryStore, told: Queue[Touched], operation: Put | None
) -> None:
    put(store, keys.intent_node("n1"), NODE)
    put(store, keys.intent_job("j1"), JOB)
    put(store, keys.decision_job("j1"), BOUND)
    picture.start()
    until(told, lambda message: message.everything)
    revision = store.commit([], [operation or Delete(keys.decision_job("j1"))]).revision
    assert until(told, lambda message: message.revision == revision).nodes == {"n1"}


def test_it_says_stale_while_the_store_is_away_and_heals(
    picture: Picture, store: MemoryStore, clock: Clock, told: Queue[Touched]
) -> None:
    put(store, keys.intent_node("n1"), NODE)
    picture.start()
    until(told, lambda message: message.everything)
    clock.now_ms = 7_000
    store.fail()
    until(told, lambda message: not picture.fresh)
    assert picture.stale_since_ms == 7_000
    with picture.reading() as snapshot:
        assert "n1" in snapshot.nodes, "what was seen last stays readable"
    store.recover()
    until(told, lambda message: picture.fresh)
    assert picture.stale_since_ms is None
    assert picture.wait_for(put(store, keys.intent_job("j1"), JOB), WAIT_S)


def test_a_store_that_is_away_at_the_start_is_tried_again(
    picture: Picture, store: MemoryStore, told: Queue[Touched]
) -> None:
    tried = Event()

    class Counted:
        def __getattr__(self, verb: str) -> object:
            tried.set()
            return getattr(store, verb)

    picture._open = Counted  # type: ignore[assignment]
    store.fail()
    picture.start()
    assert tried.wait(WAIT_S)
    assert not picture.fresh
    store.recover()
    until(told, lambda message: picture.fresh)


def test_a_picture_that_fell_behind_compaction_loads_afresh(clock: Clock) -> None:
    store = MemoryStore(clock)
    held, going_on = Event(), Event()
    picture = Picture(lambda: store, clock)
    messages: Queue[Touched] = Queue()

    def slow(message: Touched) -> None:
        messages.put(message)
        held.set()
        going_on.wait(WAIT_S)

    picture.listen(slow)
    picture.start()
    assert held.wait(WAIT_S)
    revision = 0
    for n in range(5):
        revision = put(store, keys.intent_node(f"n{n}"), replace(NODE, name=f"n{n}"))
    store.compact(revision)
    going_on.set()
    assert picture.wait_for(revision, WAIT_S)
    with picture.reading() as snapshot:
        assert len(snapshot.nodes) == 5
    assert until(messages, lambda message: message.everything and message.revision == revision)
    picture.stop()


def test_a_listener_that_fails_or_leaves_does_not_disturb_the_others(
    picture: Picture, store: MemoryStore, told: Queue[Touched]
) -> None:
    heard: list[Touched] = []

    def broken(_: Touched) -> None:
        raise RuntimeError("a page's own trouble")

    picture.listen(broken)
    picture.listen(heard.append)()
    picture.start()
    until(told, lambda message: message.everything)
    revision = put(store, keys.intent_node("n1"), NODE)
    until(told, lambda message: message.revision == revision)
    assert not heard


def test_it_stops_and_starts_again(picture: Picture, store: MemoryStore) -> None:
    picture.start()
    assert picture.wait_for(1, WAIT_S)
    picture.stop()
    assert not picture.fresh
    revision = put(store, keys.intent_node("n1"), NODE)
    picture.start()
    assert picture.wait_for(revision, WAIT_S)
