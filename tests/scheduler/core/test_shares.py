"""Order by shares, ceilings, taking back, taking the place of others: whose turn it is and who has to give way."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler.core.entitlement import divide
from scheduler.core.types import QuotaNode, QuotaTree
from tests.builders import HOUR, Cluster, team


@pytest.mark.parametrize(
    ("total", "claims", "parts"),
    [
        pytest.param(16, [("1", 0, 8), ("3", 0, 16)], ["4", "12"], id="by weight"),
        pytest.param(16, [("0", 8, 8), ("1", 8, 12)], ["8", "8"], id="a floor without weight is kept"),
        pytest.param(24, [("2", 16, 16), ("1", 8, 14)], ["16", "8"], id="a floor is not exceeded for its weight"),
        pytest.param(10, [("1", 0, 2), ("1", 0, 20), ("1", 0, 20)], ["2", "4", "4"], id="what one leaves others take"),
        pytest.param(10, [("1", 8, 8), ("1", 8, 8)], ["8", "8"], id="floors that do not fit are kept"),
        pytest.param(100, [("1", 0, 3), ("1", 5, 7)], ["3", "7"], id="all wishes fit"),
        pytest.param(7, [("1", 0, 9), ("1/1000", 1, 9)], ["6", "1"], id="a floor beats a tiny weight"),
    ],
)
def test_what_each_may_call_its_own(total: int, claims: list[tuple[str, int, int]], parts: list[str]) -> None:
    answer = divide(Fraction(total), [(Fraction(weight), floor, wish) for weight, floor, wish in claims])
    assert answer == [Fraction(part) for part in parts]


def test_busy_teams_settle_at_their_shares() -> None:
    quota = [
        team("research", share="40"),
        team("production", share="60"),
        team("vision", "research"),
        team("speech", "research"),
        team("ads", "production", "2"),
        team("search", "production", "1"),
    ]
    cluster = Cluster("r1: 5xH100", quota=quota)
    for name in ("vision", "speech", "ads", "search"):
        for at in range(40):
            cluster.submit(f"{name}{at}", 1, team=name)
    cluster.tick()
    held = {name: cluster.snapshot.quota.by_name[name].held["H100"] for name in ("vision", "speech", "ads", "search")}
    assert held == {"vision": 8, "speech": 8, "ads": 16, "search": 8}


def test_a_ceiling_holds_at_every_level_and_holds_up_nobody_else() -> None:
    quota = [team("dept", ceiling={"H100": 16}), team("a", "dept"), team("b", "dept"), team("other")]
    cluster = Cluster("r1: 4xH100", quota=quota)
    cluster.submit("a1", 12, team="a")
    cluster.tick()
    cluster.submit("b1", 12, team="b")
    cluster.submit("b2", 4, team="b")
    cluster.submit("o1", 8, team="other")
    cluster.tick(1)
    assert cluster.running() == ["a1", "b2", "o1"]
    assert cluster.reason("b1") == "QUOTA_CEILING"


def test_a_class_cap_bounds_what_its_jobs_hold() -> None:
    cluster = Cluster("r1: 4xH100", quota=[team("a", class_caps={0: 8})])
    cluster.submit("one", 8, team="a", priority=0)
    cluster.submit("two", 8, team="a", priority=0)
    cluster.submit("three", 8, team="a", priority=1)
    cluster.tick()
    assert cluster.running() == ["one", "three"]
    assert cluster.reason("two") == "QUOTA_CEILING"


def test_a_floor_is_given_back_to_its_owner_and_no_more() -> None:
    quota = [team("a", floor={"H100": 8}), team("b", floor={"H100": 8}), team("c", floor={"H100": 8})]
    cluster = Cluster("r1: 3xH100", quota=quota)
    for at in range(3):
        cluster.submit(f"a{at}", 8, team="a")
    cluster.tick()
    cluster.submit("b1", 8, team="b")
    cluster.submit("c1", 8, team="c")
    cluster.submit("b2", 8, team="b")
    cluster.tick(60)
    assert {"b1", "c1"} <= set(cluster.running())
    assert cluster.phase("b2") == "PENDING"
    assert cluster.stops() == 2
    for _ in range(5):
        cluster.tick(60)
    assert cluster.stops() == 2, "nothing swings back"


def test_a_claim_that_would_take_the_borrower_below_its_floor_stops_nobody() -> None:
    quota = [
        team("dept", ceiling={"H100": 24}),
        team("q", "dept", "3", floor={"H100": 18}),
        team("x", "dept", "1", floor={"H100": 6}),
    ]
    cluster = Cluster("r1: 4xH100", quota=quota)
    cluster.submit("q0", 10, team="q")
    cluster.submit("x1", 4, team="x")
    cluster.submit("x2", 4, team="x")
    cluster.tick()
    cluster.submit("q1", 8, team="q")
    cluster.tick(60)
    assert cluster.reason("q1") == "QUOTA_CEILING"
    assert cluster.stops() == 0


def test_a_protected_minimum_run_time_is_waited_for() -> None:
    quota = [team("a", floor={"H100": 8}, min_runtime_ms=HOUR), team("b", floor={"H100": 8})]
    cluster = Cluster("r1: 2xH100", quota=quota)
    cluster.submit("a1", 8, team="a")
    cluster.submit("a2", 8, team="a")
    cluster.tick()
    cluster.submit("b1", 8, team="b")
    cluster.tick(3000)
    assert cluster.phase("b1") == "PENDING"
    made = cluster.plan()
    assert made.wake_ms == HOUR, "the planner asks to be woken when the protection ends"
    cluster.tick(600)
    assert cluster.phase("b1") == "RUNNING"


def test_a_live_edit_moves_a_floor() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a", floor={"H100": 16}), team("b", share="0")])
    cluster.submit("a1", 8, team="a")
    cluster.submit("a2", 8, team="a")
    cluster.tick()
    cluster.submit("b1", 8, team="b")
    cluster.tick(60)
    assert cluster.phase("b1") == "PENDING"
    cluster.snapshot.set_quota(QuotaTree((team("a", floor={"H100": 8}), team("b", floor={"H100": 8})), 2))
    cluster.tick(60)
    assert cluster.phase("b1") == "RUNNING"


def test_jobs_of_a_team_that_is_no_more_run_on_and_nothing_of_it_starts() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    cluster.submit("a1", 8, team="a")
    cluster.tick()
    cluster.snapshot.set_quota(QuotaTree((QuotaNode("b"),), 2))
    cluster.submit("a2", 8, team="a")
    cluster.tick(60)
    assert cluster.phase("a1") == "RUNNING"
    assert cluster.reason("a2") == "QUOTA_CEILING"


@pytest.mark.parametrize(
    ("asker", "victims", "stopped"),
    [
        pytest.param(8, [(4, 1), (4, 2), (8, 2)], ["v2"], id="the less important job and not the two"),
        pytest.param(4, [(2, 2)] * 8, ["v6", "v7"], id="only as many as are needed"),
        pytest.param(6, [(6, 2), (1, 3), (1, 3), (8, 1)], ["v0"], id="no needless victim"),
        pytest.param(12, [(8, 1), (8, 2), (4, 1), (4, 2)], ["v1", "v3"], id="over two hosts"),
    ],
)
def test_a_p0_stops_the_least_that_lets_it_in(asker: int, victims: list[tuple[int, int]], stopped: list[str]) -> None:
    hosts = -(-sum(gpus for gpus, _ in victims) // 8)
    cluster = Cluster(f"r1: {hosts}xH100")
    for at, (gpus, priority) in enumerate(victims):
        cluster.submit(f"v{at}", gpus, priority=priority)
        cluster.tick(1)
    cluster.submit("urgent", asker, priority=0)
    cluster.tick(60)
    cluster.tick(1)
    assert cluster.phase("urgent") == "RUNNING"
    assert [name for name in sorted(cluster.snapshot.jobs) if cluster.snapshot.jobs[name].decision.stops] == stopped


def test_a_p0_above_its_own_ceiling_stops_nobody() -> None:
    quota = [team("a"), team("b", ceiling={"H100": 8})]
    cluster = Cluster("r1: 2xH100", quota=quota)
    cluster.submit("b1", 8, team="b", priority=0)
    cluster.submit("a1", 8, team="a")
    cluster.tick()
    cluster.submit("b2", 8, team="b", priority=0)
    cluster.tick(60)
    assert cluster.stops() == 0
    assert cluster.reason("b2") == "QUOTA_CEILING"


def test_a_job_is_stopped_for_others_only_so_often_a_day() -> None:
    cluster = Cluster("r1: 1xH100", stops_per_day=2)
    cluster.submit("victim", 8, max_runtime_ms=200 * HOUR)
    cluster.tick()
    for at in range(4):
        cluster.submit(f"urgent{at}", 8, priority=0)
        cluster.tick(60)
        if cluster.phase(f"urgent{at}") == "RUNNING":
            cluster.end(f"urgent{at}")
        cluster.tick(60)
    assert cluster.stops() == 2
    assert cluster.phase("victim") == "RUNNING"


def test_two_equals_never_stop_each_other_in_turns() -> None:
    quota = [team("a", floor={"H100": 8}), team("b", floor={"H100": 8})]
    cluster = Cluster("r1: 1xH100", quota=quota)
    cluster.submit("a1", 8, team="a", max_runtime_ms=9000 * HOUR)
    cluster.tick()
    cluster.submit("b1", 8, team="b", max_runtime_ms=9000 * HOUR)
    for _ in range(50):
        cluster.tick(3600)
    assert cluster.stops() <= 1


def test_use_of_days_counts_against_a_team_after_its_job_has_ended() -> None:
    cluster = Cluster("r1: 1xH100x1", quota=[team("u"), team("v")])
    cluster.submit("u0", 1, team="u", max_runtime_ms=200 * HOUR)
    cluster.tick()
    cluster.tick(3 * 86_400)
    cluster.submit("u1", 1, team="u")
    cluster.tick(10)
    cluster.submit("v1", 1, team="v")
    cluster.tick(10)
    cluster.end("u0")
    cluster.tick(10)
    assert cluster.running() == ["v1"]
