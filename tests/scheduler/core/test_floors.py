"""A floor is there for its owner whenever it wants it, whatever shares the others have; a share swings nothing back."""

from __future__ import annotations

import pytest

from tests.builders import HOUR, Cluster, team

THIRD = [team("own", floor={"H100": 3}), team("b"), team("c")]
"""The two others share five GPUs: two and a half each, rounded up for whom something is taken."""


def test_a_floor_is_not_kept_from_its_owner_by_the_rounding_of_shares() -> None:
    cluster = Cluster("r1: 1xH100", quota=THIRD)
    for at in range(4):
        for name in ("b", "c"):
            cluster.submit(f"{name}{at}", 1, team=name)
    cluster.tick()
    assert len(cluster.running()) == 8
    for at in range(3):
        cluster.submit(f"own{at}", 1, team="own")
    for _ in range(6):
        cluster.tick(60)
    assert [name for name in cluster.running() if name.startswith("own")] == ["own0", "own1", "own2"]
    assert cluster.stops() == 3


@pytest.mark.parametrize(
    ("floor", "other_floor", "started"),
    [
        pytest.param(2, 0, True, id="below its share, for a floor"),
        pytest.param(0, 0, False, id="not for a share"),
        pytest.param(2, 4, False, id="not below its own floor"),
    ],
)
def test_a_gang_that_holds_more_than_its_teams_own_goes_whole(floor: int, other_floor: int, started: bool) -> None:
    quota = [team("own", floor={"H100": floor}), team("other", floor={"H100": other_floor}, share="3")]
    cluster = Cluster("r1: 1xH100", quota=quota)
    cluster.submit("gang", 8, team="other")
    cluster.tick()
    cluster.submit("small", 2, team="own")
    for _ in range(6):
        cluster.tick(60)
    assert (cluster.phase("small") == "RUNNING") is started
    assert cluster.stops() == int(started)


def test_nobody_who_holds_no_more_than_its_own_gives_way_even_to_a_floor() -> None:
    quota = [team("own", floor={"H100": 8}), team("big", share="9"), team("small", share="1")]
    cluster = Cluster("r1: 2xH100", quota=quota)
    cluster.submit("over", 14, team="small")
    cluster.submit("within", 2, team="big")
    cluster.tick()
    cluster.submit("asker", 2, team="own")
    for _ in range(4):
        cluster.tick(60)
    assert cluster.snapshot.jobs["within"].decision.stops == 0


def test_a_teams_floor_holds_against_other_departments_that_give_none() -> None:
    quota = [team("dept"), team("vision", "dept", floor={"H100": 12}), team("speech", "dept"), team("else", share="9")]
    cluster = Cluster("r1: 2xH100", quota=quota)
    for at in range(8):
        cluster.submit(f"e{at}", 2, team="else")
    cluster.tick()
    for at in range(6):
        cluster.submit(f"v{at}", 2, team="vision")
    for _ in range(8):
        cluster.tick(60)
    assert len([name for name in cluster.running() if name.startswith("v")]) == 6
    cluster.tick(3600)
    assert cluster.stops() == 6


def test_a_teams_floor_holds_against_a_borrower_whose_department_holds_no_more_than_its_own() -> None:
    """What a department is owed may lie free in pieces that nobody can use; a floor does not wait for that."""
    quota = [
        *(team("research"), team("vision", "research"), team("language", "research")),
        *(team("production"), team("ads", "production", floor={"H100": 8}), team("safety", "production")),
    ]
    cluster = Cluster("r1: 3xH100", quota=quota)
    cluster.submit("whole", 8, team="vision")
    cluster.submit("half", 4, team="vision")
    cluster.submit("other half", 4, team="safety")
    cluster.tick()
    cluster.submit("piece", 4, team="safety")
    cluster.tick()
    cluster.end("other half")
    cluster.submit("waits", 8, team="language")
    cluster.tick()
    cluster.submit("floor", 8, team="ads")
    for _ in range(4):
        cluster.tick(60)
    assert cluster.phase("floor") == "RUNNING"
    assert cluster.stops() == 1 and cluster.phase("whole") == "RUNNING"


def test_a_team_below_its_floor_takes_a_host_that_is_gathered_for_others() -> None:
    cluster = Cluster("r1: 2xH100", gathers=1, quota=[team("big"), team("large"), team("own", floor={"H100": 8})])
    cluster.submit("a", 8, team="big", max_runtime_ms=48 * HOUR)
    cluster.submit("b", 8, team="big", max_runtime_ms=48 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16, team="large", max_runtime_ms=HOUR, priority=1)
    cluster.tick(60)
    cluster.end("a")
    cluster.tick()
    assert cluster.phase("gang") == "PENDING"
    cluster.submit("late", 8, team="own", max_runtime_ms=10 * HOUR)
    cluster.tick(60)
    assert cluster.phase("late") == "RUNNING"
    assert cluster.stops() == 0
