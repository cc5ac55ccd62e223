"""The plan rolled forward is what the planner and obedient agents come to."""

from __future__ import annotations

import pytest

from scheduler.core.rollout import Course, Rollout
from scheduler.core.scratch import Scratch, records
from scheduler.core.types import OnLoss, Policy, StopCause
from tests.builders import HOUR, MINUTE, Cluster, team


def roll(cluster: Cluster, until_ms: int = 100 * HOUR, plans: int = 200, **policy: object) -> Course:
    scratch = Scratch().follow(records(cluster.snapshot))
    return Rollout(scratch, Policy(**policy), cluster.now_ms).run(until_ms, plans)  # type: ignore[arg-type]


def test_waiting_jobs_start_when_those_before_them_reach_their_limits() -> None:
    cluster = Cluster("r1: 1xH100")
    for name in ("a", "b", "c"):
        cluster.submit(name, 8, max_runtime_ms=2 * HOUR)
        cluster.tick(60)
    assert cluster.running() == ["a"]
    course = roll(cluster)
    assert list(course.starts) == ["b", "c"]
    assert abs(course.starts["b"] - (2 * HOUR + MINUTE)) <= 2 * MINUTE
    assert abs(course.starts["c"] - course.starts["b"] - 2 * HOUR) <= 2 * MINUTE


def test_what_never_starts_is_unknown_and_the_course_is_known_to_its_end() -> None:
    cluster = Cluster("r1: 1xH100", quota=[team("ml", ceiling={"H100": 4})])
    cluster.submit("a", 8)
    cluster.tick()
    course = roll(cluster)
    assert (course.starts, course.until_ms) == ({}, 100 * HOUR)


def test_stops_are_told_with_their_cause_and_their_loss() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    cluster.submit("x", 8, team="a", checkpoint=None)
    cluster.submit("y", 8, team="a", checkpoint=None)
    cluster.tick()
    cluster.tick(600)
    cluster.submit("z", 8, team="b")
    course = roll(cluster)
    (stop,) = course.stops
    assert (stop.cause, stop.for_job, stop.lost_ms) == (StopCause.RECLAIM, "z", 10 * MINUTE)
    assert course.starts["z"] - stop.at_ms <= 3 * MINUTE, "after the grace"


def test_one_who_saves_loses_nothing() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    cluster.submit("x", 8, team="a")
    cluster.submit("y", 8, team="a")
    cluster.tick()
    cluster.tick(600)
    cluster.submit("z", 8, team="b")
    (stop,) = roll(cluster).stops
    assert stop.lost_ms == 0


def test_it_ends_when_it_is_enough() -> None:
    cluster = Cluster("r1: 1xH100")
    for number in range(20):
        cluster.submit(f"j{number}", 8, max_runtime_ms=HOUR)
    cluster.tick()
    scratch = Scratch().follow(records(cluster.snapshot))
    course = Rollout(scratch, Policy(), cluster.now_ms).run(100 * HOUR, 5)
    assert course.plans == 5
    assert course.until_ms < 10 * HOUR
    way = Rollout(Scratch().follow(records(cluster.snapshot)), Policy(), cluster.now_ms)
    assert way.run(100 * HOUR, 100, lambda: True).plans == 0


def test_one_who_begins_anew_loses_all_even_where_it_saves() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    for name in ("x", "y"):
        cluster.submit(name, 8, team="a", on_preemption=OnLoss.RESTART)
    cluster.tick()
    cluster.tick(600)
    cluster.submit("z", 8, team="b")
    (stop,) = roll(cluster).stops
    assert stop.lost_ms == 10 * MINUTE


@pytest.mark.parametrize(
    ("coarse", "apart_ms"),
    [pytest.param(None, MINUTE, id="the same all along"), pytest.param(20, HOUR, id="a twentieth of the time ahead")],
)
def test_how_far_apart_plans_are_far_ahead(coarse: int | None, apart_ms: int) -> None:
    """What is due in between happens together: after 20 hours the second job's half minute may come out as an hour."""
    cluster = Cluster("r1: 1xH100")
    for number, runs_ms in enumerate((20 * HOUR, MINUTE // 2, MINUTE // 2)):
        cluster.submit(f"j{number}", 8, max_runtime_ms=runs_ms, submitted_ms=number)
        cluster.tick()
    assert cluster.running() == ["j0"]
    way = Rollout(Scratch().follow(records(cluster.snapshot)), Policy(), cluster.now_ms, MINUTE, coarse)
    starts = way.run(100 * HOUR, 200).starts
    assert starts["j2"] - starts["j1"] >= apart_ms


def test_it_agrees_with_a_cluster_that_lives_through_it() -> None:
    cluster = Cluster("r1: 2xH100", "r2: 2xH100", quota=[team("a"), team("b", share="2"), team("c", floor={"H100": 8})])
    sizes = [8, 16, 4, 8, 8, 12, 8, 2]
    for number, gpus in enumerate(sizes):
        hours = 1 + number % 3
        cluster.submit(f"j{number}", gpus, team="abc"[number % 3], max_runtime_ms=hours * HOUR, submitted_ms=number)
    cluster.tick()
    course = roll(cluster)
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    for minute in range(24 * 60):
        for name in cluster.running():
            if name not in starts and name in course.starts:
                starts[name] = cluster.now_ms
            ends.setdefault(name, cluster.now_ms + cluster.snapshot.jobs[name].spec.max_runtime_ms)
        for name, end in list(ends.items()):
            if cluster.phase(name) == "RUNNING" and end <= cluster.now_ms:
                cluster.end(name)
        cluster.tick(60 if minute else 0)
    assert starts.keys() == course.starts.keys()
    for name, at_ms in course.starts.items():
        assert abs(starts[name] - at_ms) <= 6 * MINUTE, name
