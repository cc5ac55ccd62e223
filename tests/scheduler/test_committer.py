from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pytest

from scheduler.committer import Result, commit
from scheduler.core.types import (
    Change,
    EventKind,
    JobChange,
    JobDecision,
    NodeChange,
    NodeDecision,
    NodeIntent,
    Phase,
    Plan,
    Reservation,
    Reservations,
    ReservationsChange,
)
from scheduler.loader import InDoubt, Loader
from scheduler.store import keys
from scheduler.store.base import Committed, Compare, Delete, Operation, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.failing import Fuse, Killed
from tests.scheduler.store.seam import VirtualClock
from tests.scheduler.world import TTL_S, World, assert_sound, bind, release, running


class Watched(MemoryStore):
    """Lets a test look at each transaction, lose it or its answer, and kill the leader before or after it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.seen: list[tuple[Sequence[Compare], Sequence[Operation]]] = []
        self.fuse = Fuse(None)
        self.loses: Literal["nothing", "requests", "answers"] = "nothing"

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        self.seen.append((compares, operations))
        if self.loses == "requests":
            raise StoreUnavailable("no answer")
        with self.fuse.step("commit"):
            done = super().commit(compares, operations)
        if self.loses == "answers":
            raise StoreUnavailable("no answer")
        return done


class Bench:
    """A world with a leader elected and its loader loaded."""

    def __init__(self, nodes: int = 4) -> None:
        clock = VirtualClock()
        self.store = Watched(clock)
        self.world = World(self.store, nodes, clock)
        self.leader = self.world.leader("one")
        self.start()

    def start(self) -> None:
        token = self.leader.hold()
        assert token is not None
        self.token = token
        self.loader = self.world.loader()
        self.store.seen.clear()

    def commit(self, *changes: Change) -> Result:
        return commit(self.store, self.loader, Plan(changes), self.token, self.world.new_id)

    def assert_loader_knows_what_the_store_holds(self) -> None:
        fresh = self.world.loader()
        for job in fresh.snapshot.jobs.values():
            assert self.loader.snapshot.jobs[job.id].decision == job.decision
            assert self.loader.mod(keys.decision_job(job.id)) == fresh.mod(keys.decision_job(job.id))


def _node(name: str, cordon: str | None = None) -> NodeIntent:
    return NodeIntent(name, "az1", "r1", "H100", cordon=cordon)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_decision_and_its_events_are_one_commit_and_in_the_snapshot_at_once(bench: Bench) -> None:
    bench.world.wish("a", 16)
    bench.loader.catch_up()
    change = bind("a", "n0", "n1", fence=bench.token)
    result = bench.commit(change)
    assert (result.committed, result.refused, result.halted) == ([change], [], False)
    entry = bench.store.get(keys.decision_job("a"))
    assert entry is not None
    assert bench.store.read(keys.JOURNAL).entries[-1].create_revision == entry.mod_revision
    assert bench.loader.snapshot.jobs["a"].phase is Phase.STARTING
    assert bench.loader.snapshot.nodes["n0"].free_gpus == 0
    assert not bench.loader.catch_up(), "the echo is no news"


def test_nodes_and_reservations_are_committed_as_jobs_are(bench: Bench) -> None:
    held = Reservations((Reservation(("n0",), 0, job="a"),))
    result = bench.commit(NodeChange("n1", NodeDecision(why="fault")), ReservationsChange(held))
    assert len(result.committed) == 2
    loader = bench.world.loader()
    assert loader.snapshot.reservations == held
    assert loader.snapshot.nodes["n1"].decision == NodeDecision(why="fault")


def test_a_change_without_events_leaves_no_journal(bench: Bench) -> None:
    before = len(bench.store.read(keys.JOURNAL).entries)
    assert bench.commit(NodeChange("n1", NodeDecision())).committed
    assert len(bench.store.read(keys.JOURNAL).entries) == before


def test_an_empty_plan_asks_the_store_nothing(bench: Bench) -> None:
    assert bench.commit() == Result()
    assert bench.store.seen == []


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda world: world.wish("a", version=2), id="the job's wish changed"),
        pytest.param(
            lambda world: world.store.commit([], [Delete(keys.intent_job("a"))]), id="the job's wish was taken back"
        ),
        pytest.param(
            lambda world: world.put(keys.intent_node("n0"), _node("n0", cordon="fan")), id="a node was cordoned"
        ),
        pytest.param(lambda world: world.store.commit([], [Delete(keys.intent_node("n0"))]), id="a node went away"),
        pytest.param(lambda world: world.put(keys.decision_job("a"), JobDecision()), id="the job was decided about"),
    ],
)
def test_what_was_planned_on_stale_state_is_left_out_and_the_rest_done(
    bench: Bench, meanwhile: Callable[[World], object]
) -> None:
    for job in ("a", "b", "c"):
        bench.world.wish(job)
    bench.loader.catch_up()
    stale, fresh, other = bind("a", "n0"), bind("b", "n1"), bind("c", "n2")
    meanwhile(bench.world)
    result = bench.commit(stale, fresh, other)
    assert (result.refused, result.halted) == ([stale], False)
    assert sorted(change.job for change in result.committed if isinstance(change, JobChange)) == ["b", "c"]
    assert bench.world.decisions().get("a", JobDecision()) == JobDecision()
    bench.loader.catch_up()
    bench.assert_loader_knows_what_the_store_holds()


def test_gpus_are_freed_before_they_are_given_away(bench: Bench) -> None:
    _wish_and_run(bench, "a", "n0")
    bench.world.wish("b")
    bench.loader.catch_up()
    assert len(bench.commit(release("a"), bind("b", "n0")).committed) == 2
    freed, taken = (bench.loader.mod(keys.decision_job(job)) for job in ("a", "b"))
    assert freed < taken


def test_gpus_that_were_not_freed_after_all_are_not_given_away(bench: Bench) -> None:
    _wish_and_run(bench, "a", "n0")
    _wish_and_run(bench, "c", "n2")
    bench.world.wish("b")
    bench.loader.catch_up()
    bench.world.wish("a", version=2)
    stale, taker = release("a"), bind("b", "n0")
    result = bench.commit(stale, release("c"), taker)
    assert result.refused == [stale, taker]
    assert_sound(bench.world.decisions(), {"a": 8, "b": 8, "c": 8})


def test_two_changes_of_one_job_follow_each_other(bench: Bench) -> None:
    _wish_and_run(bench, "a", "n0")
    result = bench.commit(release("a"), bind("a", "n1", attempt=2))
    assert len(result.committed) == 2
    assert bench.world.decisions()["a"].attempt == 2
    bench.assert_loader_knows_what_the_store_holds()


def test_what_follows_a_refused_change_of_the_same_job_is_refused_too(bench: Bench) -> None:
    _wish_and_run(bench, "a", "n0")
    bench.world.put(keys.decision_job("a"), running("n0", attempt=7))
    assert len(bench.commit(release("a"), bind("a", "n1", attempt=2)).refused) == 2
    assert bench.world.decisions()["a"].attempt == 7


def test_many_gangs_share_transactions_that_a_plain_etcd_takes() -> None:
    bench = Bench(nodes=300)
    for number in range(300):
        bench.world.wish(f"j{number}")
    bench.loader.catch_up()
    bench.store.seen.clear()
    assert len(bench.commit(*(bind(f"j{number}", f"n{number}") for number in range(300))).committed) == 300
    assert len(bench.store.seen) < 30
    assert max(max(map(len, seen)) for seen in bench.store.seen) <= 128


def test_a_gang_of_all_hosts_is_one_transaction() -> None:
    bench = Bench(nodes=300)
    bench.world.wish("a", 2400)
    bench.loader.catch_up()
    bench.store.seen.clear()
    assert len(bench.commit(bind("a", *bench.world.nodes)).committed) == 1
    ((compares, _),) = bench.store.seen
    assert len(compares) == 300 + 3


# --- leaders that are not alone, and stores that do not answer


def test_a_deposed_leader_that_wakes_up_commits_nothing(bench: Bench) -> None:
    for job in ("a", "b"):
        bench.world.wish(job)
    bench.loader.catch_up()
    bench.world.clock.sleep(TTL_S)
    other = bench.world.leader("two").hold()
    assert other is not None and other > bench.token
    bench.store.seen.clear()
    result = bench.commit(bind("a", "n0"), bind("b", "n1"))
    assert (result.committed, result.deposed) == ([], True)
    assert bench.world.decisions() == {}
    assert len(bench.store.seen) == 1, "it stops trying at once"


def test_two_leaders_at_once_never_give_a_gpu_twice(bench: Bench) -> None:
    for job in ("a", "b"):
        bench.world.wish(job)
    bench.loader.catch_up()
    bench.world.clock.sleep(TTL_S)
    second = bench.world.leader("two")
    token, loader = second.hold(), bench.world.loader()
    assert token is not None
    assert commit(bench.store, loader, Plan((bind("b", "n0"),)), token, bench.world.new_id).committed
    assert bench.commit(bind("a", "n0")).deposed
    assert_sound(bench.world.decisions(), {"a": 8, "b": 8})


def test_after_an_unknown_outcome_nothing_more_is_sent_or_planned_under_the_token(bench: Bench) -> None:
    _wish_and_run(bench, "a", "n0")
    for job in ("b", "c"):
        bench.world.wish(job)
    bench.loader.catch_up()
    bench.store.seen.clear()
    bench.store.loses = "answers"
    result = bench.commit(release("a"), bind("b", "n0"))
    bench.store.loses = "nothing"
    assert (result.unsure, result.committed, len(bench.store.seen)) == (True, [], 1)
    assert bench.world.decisions()["a"].phase is Phase.PENDING, "it had happened"
    with pytest.raises(InDoubt):
        bench.loader.catch_up(through=bench.token)
    bench.leader.resign()
    token = bench.leader.hold()
    assert token is not None
    bench.loader.catch_up(through=token)
    bench.assert_loader_knows_what_the_store_holds()


def test_a_commit_that_arrives_late_finds_the_door_shut(bench: Bench) -> None:
    """The answer did not come, the commit is still on its way: the next term must not plan over it."""
    for job in ("a", "b"):
        bench.world.wish(job)
    bench.loader.catch_up()
    bench.store.loses = "requests"
    assert bench.commit(bind("a", "n0")).unsure
    bench.store.loses = "nothing"
    late = bench.store.seen[-1]
    bench.leader.resign()
    bench.start()
    assert bench.commit(bind("b", "n0")).committed
    assert not bench.store.commit(*late).ok
    assert_sound(bench.world.decisions(), {"a": 8, "b": 8})


# --- crashes


PLAN = (
    release("a"),
    NodeChange("n3", NodeDecision(why="watched")),
    replace(release("b"), decision=JobDecision(Phase.SUCCEEDED, 1)),
    bind("c", "n0", "n1"),
    bind("d", "n2"),
    release("c"),
    bind("e", "n0"),
)
GPUS = {"a": 8, "b": 8, "c": 16, "d": 8, "e": 8}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(4))  # as many as the plan has waves
def test_a_leader_killed_at_any_step_leaves_what_the_next_one_goes_on_from(step: int, after: bool) -> None:
    bench = _with_work_to_do()
    bench.store.fuse = Fuse(step, after)
    with pytest.raises(Killed):
        bench.commit(*PLAN)
    bench.store.fuse = Fuse(None)
    assert_sound(bench.world.decisions(), GPUS)
    _the_next_leader_finishes(bench)


def _with_work_to_do() -> Bench:
    bench = Bench()
    _wish_and_run(bench, "a", "n0")
    _wish_and_run(bench, "b", "n1")
    for job in ("c", "d", "e"):
        bench.world.wish(job, GPUS[job])
    bench.loader.catch_up()
    return bench


def _the_next_leader_finishes(bench: Bench) -> None:
    bench.world.clock.sleep(TTL_S)
    leader = bench.world.leader("two")
    token = leader.hold()
    assert token is not None
    loader: Loader = bench.world.loader()
    for _ in range(3):
        changes = tuple(_first_fit(loader))
        result = commit(bench.store, loader, Plan(changes), token, bench.world.new_id)
        assert not result.refused
        assert_sound(bench.world.decisions(), GPUS)
    told = [(event.job, event.attempt) for event in bench.world.events() if event.kind is EventKind.BIND]
    assert len(told) == len(set(told)), "each bind is told once"
    starting = {(job, made.attempt) for job, made in bench.world.decisions().items() if made.phase is Phase.STARTING}
    assert starting <= set(told)
    assert starting and not _first_fit(loader), "nothing that fits is left waiting"


def _first_fit(loader: Loader) -> list[Change]:
    """A plain planner: pending gangs onto nodes that are wholly free."""
    free = [node.name for node in loader.snapshot.nodes.values() if node.free_gpus == 8]
    changes: list[Change] = []
    for job in loader.snapshot.jobs.values():
        need = job.spec.gpus // 8
        if job.phase is Phase.PENDING and need <= len(free):
            changes.append(bind(job.id, *free[:need], attempt=job.decision.attempt + 1))
            del free[:need]
    return changes


def _wish_and_run(bench: Bench, job: str, *nodes: str) -> None:
    bench.world.wish(job, 8 * len(nodes))
    bench.world.put(keys.decision_job(job), running(*nodes))
    bench.loader.catch_up()
