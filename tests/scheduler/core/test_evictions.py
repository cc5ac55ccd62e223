"""Who gets what a stop makes free: the one for whom it was asked, whoever else would come first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.claims import Claims
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.types import EventKind, JobIntent, OnLoss
from tests.builders import MINUTE, Cluster, team

TWO = [team("own", floor={"H100": 8}), team("lender", floor={"H100": 0})]


def stops(cluster: Cluster) -> list[tuple[str, str, str | None]]:
    """Every stop that was asked, in order: who, why, for whom."""
    found = [event for event in cluster.events if event.kind is EventKind.STOP]
    return [(event.job or "", event.detail["cause"], event.detail["for"]) for event in found]


@pytest.mark.parametrize(
    ("asker", "victim", "first"),
    [
        pytest.param(2, 2, "asker", id="of the same class"),
        pytest.param(3, 1, "asker", id="whose victim is more important"),
        pytest.param(2, 0, "victim", id="but not from P0, which would take it back"),
        pytest.param(0, 0, "asker", id="P0 from P0"),
    ],
)
def test_a_floor_goes_to_its_owner(asker: int, victim: int, first: str) -> None:
    cluster = Cluster("r1: 1xH100", quota=TWO)
    cluster.submit("victim", 8, team="lender", priority=victim)
    cluster.tick()
    cluster.submit("asker", 8, team="own", priority=asker)
    for _ in range(5):
        cluster.tick(60)
    assert cluster.running() == [first]
    assert stops(cluster) == ([("victim", "reclaim", "asker")] if first == "asker" else [])


def test_what_is_asked_for_one_is_not_given_to_another_in_the_same_plan() -> None:
    cluster = Cluster("r1: 1xH100", quota=TWO)
    cluster.submit("low", 4, team="lender", priority=3)
    cluster.submit("victim", 4, team="lender")
    cluster.tick()
    cluster.submit("asker", 4, team="own")
    cluster.submit("urgent", 4, team="lender", priority=0)
    cluster.tick()
    for_whom = {job: asker for job, _, asker in stops(cluster)}
    assert sorted(for_whom) == ["low", "victim"]
    assert len(stops(cluster)) == 2
    assert cluster.running() == ["asker", "urgent"]


def test_a_job_whose_victims_go_to_a_more_important_one_asks_again() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("ml"), team("other")])
    cluster.submit("old", 8, priority=3)
    cluster.submit("older", 8, priority=3)
    cluster.tick()
    cluster.deaf = {"r1-1", "r1-2"}
    cluster.submit("middle", 8, priority=2)
    cluster.tick(1)
    cluster.submit("top", 8, team="other", priority=0)
    cluster.tick(1)
    cluster.deaf = set()
    for _ in range(4):
        cluster.tick(60)
    assert cluster.running() == ["middle", "top"]
    assert all(cluster.snapshot.jobs[name].decision.stops == 1 for name in ("old", "older"))


def test_a_hold_is_told_of_once() -> None:
    cluster = Cluster("r1: 2xH100")
    cluster.submit("low", 8, priority=3)
    cluster.submit("lower", 8, priority=3)
    cluster.tick()
    cluster.deaf = {"r1-1"}
    cluster.submit("high", 16, priority=1)
    for _ in range(6):
        cluster.tick(20)
    told = [event.kind for event in cluster.events if event.job == "high"]
    assert told.count(EventKind.RESERVE) == 1
    assert told.count(EventKind.UNRESERVE) == 0


@pytest.mark.parametrize(("floor", "patience"), [pytest.param(0, 30, id="by share"), pytest.param(8, 0, id="by floor")])
def test_a_share_is_taken_back_after_some_patience_and_a_floor_at_once(floor: int, patience: int) -> None:
    own = [team("own", floor={"H100": floor}), team("lender")]
    cluster = Cluster("r1: 2xH100", quota=own, share_patience_ms=30 * MINUTE)
    cluster.submit("one", 8, team="lender")
    cluster.submit("two", 8, team="lender")
    cluster.tick()
    cluster.submit("asker", 8, team="own")
    waited = 0
    while not stops(cluster) and waited < 60:
        cluster.tick(60)
        waited += 1
    assert patience <= waited <= patience + 2


def _held(job: Job) -> JobIntent:
    return replace(job.intent, version=2, hold=True)


@pytest.mark.parametrize(
    ("wishes", "held", "moved"),
    [
        pytest.param({}, False, True, id="one that goes on from its checkpoint"),
        pytest.param({"on_preemption": OnLoss.FAIL}, False, False, id="none that a stop would end"),
        pytest.param({"on_preemption": OnLoss.RESTART}, False, False, id="none that would lose all its work"),
        pytest.param({}, True, False, id="none that its people keep from starting again"),
    ],
)
def test_repair_moves(wishes: dict[str, OnLoss], held: bool, moved: bool) -> None:
    cluster = Cluster("r1: 2xH100", repair="auto", repair_every_ms=MINUTE)
    for job in ("a", "gone", "b", "gone too"):
        cluster.submit(job, 4, **wishes)
        cluster.tick(1)
    cluster.end("gone")
    cluster.end("gone too")
    cluster.tick(1)
    if held:
        for job in ("a", "b"):
            cluster.snapshot.set_job_intent(job, _held(cluster.snapshot.jobs[job]))
    cluster.submit("wide", 8)
    for _ in range(4):
        cluster.tick(60)
    assert bool(stops(cluster)) is moved


def test_nobody_is_stopped_where_memory_would_not_do_even_then() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("stays", 2, priority=1, memory_per_rank_gb=500)
    cluster.submit("low", 6, priority=3)
    cluster.tick()
    cluster.submit("high", 4, priority=2, memory_per_rank_gb=400)
    for _ in range(3):
        cluster.tick(60)
    assert stops(cluster) == []


def test_who_uses_the_memory_is_stopped_with_who_uses_the_gpus() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("gpus", 7, priority=3)
    cluster.submit("memory", 1, priority=3, memory_per_rank_gb=2000)
    cluster.tick()
    cluster.submit("high", 4, priority=1, memory_per_rank_gb=400)
    cluster.tick()
    assert {job for job, _, _ in stops(cluster)} == {"gpus", "memory"}
    assert "high" in cluster.running()


def test_room_below_a_ceiling_goes_to_the_one_for_whom_it_was_made() -> None:
    quota = [team("dept", ceiling={"H100": 8}), team("own", "dept", floor={"H100": 4}), team("lender", "dept")]
    cluster = Cluster("r1: 3xH100", quota=quota)
    cluster.submit("one", 4, team="lender", priority=1)
    cluster.submit("two", 4, team="lender", priority=1)
    cluster.tick()
    cluster.submit("asker", 4, team="own", priority=3)
    for _ in range(4):
        cluster.tick(60)
    assert len(stops(cluster)) == 1
    assert "asker" in cluster.running()


def test_what_was_planned_behind_a_stop_does_not_keep_out_its_cause() -> None:
    cluster = Cluster("r1: 1xH100", quota=TWO)
    cluster.submit("victim", 8, team="lender")
    cluster.tick()
    cluster.deaf = {"r1-1"}
    cluster.submit("asker", 8, team="own")
    cluster.tick(1)
    cluster.submit("later", 8, team="lender", priority=1)
    cluster.tick(60)
    cluster.deaf = set()
    cluster.tick(1)
    assert cluster.running() == ["asker"]


def test_below_a_ceiling_nobody_is_stopped_beside_one_who_does_alone() -> None:
    cluster = Cluster("r1: 3xH100", quota=[team("ml", ceiling={"H100": 8})])
    cluster.submit("small", 2, priority=3)
    cluster.submit("large", 6, priority=3)
    cluster.tick()
    cluster.submit("high", 3, priority=1)
    cluster.tick()
    assert [job for job, _, _ in stops(cluster)] == ["large"]


def test_memory_that_stops_make_free_is_kept_for_whom_it_was() -> None:
    cluster = Cluster("r1: 1xH100", quota=TWO)
    cluster.submit("victim", 3, team="lender", memory_per_rank_gb=400)
    cluster.submit("other", 5, team="lender")
    cluster.tick()
    cluster.deaf = {"r1-1"}
    cluster.submit("asker", 2, team="own", memory_per_rank_gb=500)
    cluster.tick(1)
    cluster.submit("sneak", 1, team="lender", priority=1, memory_per_rank_gb=1500)
    cluster.tick(1)
    cluster.deaf = set()
    for _ in range(3):
        cluster.tick(60)
    assert cluster.running() == ["asker", "other"]
    assert stops(cluster) == [("victim", "reclaim", "asker")]


def test_two_who_need_the_same_memory_are_not_promised_it_both() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("ml")])
    for at in range(4):
        cluster.submit(f"low{at}", 4, priority=2)
    cluster.tick()
    for at in range(2):
        cluster.submit(f"top{at}", 4, priority=0, memory_per_rank_gb=400)
    for _ in range(3):
        cluster.tick(60)
    assert [name for name in cluster.running() if name.startswith("top")] == ["top0", "top1"]
    assert cluster.on("top0") != cluster.on("top1")
    assert cluster.stops() == 2


def test_two_do_not_take_turns_by_their_shares() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    cluster.submit("first", 8, team="a")
    cluster.submit("more", 8, team="a")
    cluster.tick()
    cluster.submit("second", 8, team="b")
    for _ in range(3):
        cluster.tick(60)
    (stopped,) = [name for name in ("first", "more") if cluster.snapshot.jobs[name].decision.stops]
    record = cluster.snapshot.jobs[stopped].decision
    assert record.stopped_for == ("second",)
    claims = Claims(Draft(cluster.snapshot, cluster.policy, cluster.now_ms, 1), "H100", ())
    asker, victim = cluster.snapshot.jobs[stopped], cluster.snapshot.jobs["second"]
    assert claims._would_swap(asker, victim)
    cluster.now_ms += 3_600_000
    later = Claims(Draft(cluster.snapshot, cluster.policy, cluster.now_ms, 1), "H100", ())
    assert not later._would_swap(asker, victim)


def test_repair_moves_nobody_who_could_take_the_place_back() -> None:
    cluster = Cluster("r1: 2xH100", repair="auto", repair_every_ms=MINUTE)
    for job in ("a", "gone", "b", "gone too"):
        cluster.submit(job, 4, priority=1)
        cluster.tick(1)
    cluster.end("gone")
    cluster.end("gone too")
    cluster.submit("wide", 8, priority=2)
    for _ in range(4):
        cluster.tick(60)
    assert stops(cluster) == []
