"""Arrays with a throttle: so many of one array at a time, in their order, whatever comes over them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.reasons import explain
from scheduler.core.types import HOLDING
from tests.builders import HOUR, Cluster


def array(cluster: Cluster, count: int, throttle: int, **wishes: object) -> list[str]:
    names = [f"a[{at}]" for at in range(count)]
    for name in names:
        cluster.submit(name, 8, array="a", throttle=throttle, name=name, **wishes)
    return names


def holding(cluster: Cluster) -> list[str]:
    return sorted(job.id for job in cluster.snapshot.jobs.values() if job.phase in HOLDING)


@pytest.mark.parametrize(("throttle", "running"), [(1, 1), (2, 2), (4, 4), (9, 6), (0, 6)])
def test_so_many_run_at_a_time(throttle: int, running: int) -> None:
    cluster = Cluster("r1: 8xH100")
    names = array(cluster, 6, throttle)
    cluster.tick()
    assert cluster.running() == names[:running]
    assert {cluster.reason(name) for name in names[running:]} <= {"DEPENDENCY"}


def test_each_end_lets_the_next_one_in() -> None:
    cluster = Cluster("r1: 8xH100")
    names = array(cluster, 12, 2)
    cluster.tick()
    for at in range(10):
        assert cluster.running() == sorted(names[at : at + 2])
        cluster.end(names[at])
        cluster.tick(60)
    assert cluster.running() == sorted(names[10:])


def test_those_that_may_not_start_are_promised_nothing() -> None:
    cluster = Cluster("r1: 2xH100")
    cluster.submit("busy", 8, max_runtime_ms=HOUR)
    array(cluster, 5, 1)
    cluster.tick()
    cluster.submit("other", 8)
    cluster.tick(60)
    assert [held.job for held in cluster.snapshot.reservations.held] == ["other"]
    words = explain(cluster.snapshot, cluster.policy, "a[1]", cluster.now_ms).words
    assert words.startswith("At most 1 of its array")


def test_one_that_is_held_lets_the_next_one_in() -> None:
    cluster = Cluster("r1: 8xH100")
    array(cluster, 3, 1)
    first = cluster.snapshot.jobs["a[0]"].intent
    cluster.snapshot.set_job_intent("a[0]", replace(first, version=2, hold=True))
    cluster.tick()
    assert cluster.running() == ["a[1]"]
    cluster.snapshot.set_job_intent("a[0]", replace(first, version=3))
    cluster.tick(60)
    assert cluster.running() == ["a[1]"]
    cluster.end("a[1]")
    cluster.tick(60)
    assert cluster.running() == ["a[0]"]


def test_one_that_backs_off_lets_the_next_one_in_and_comes_next() -> None:
    cluster = Cluster("r1: 8xH100", backoff_ms=300_000)
    array(cluster, 3, 1)
    cluster.tick()
    cluster.end("a[0]", code=1)
    cluster.tick()
    assert cluster.running() == ["a[1]"]
    cluster.tick(400)
    assert holding(cluster) == ["a[1]"]
    cluster.end("a[1]")
    cluster.tick(60)
    assert cluster.running() == ["a[0]"]


def test_one_that_was_stopped_for_another_keeps_to_the_throttle() -> None:
    cluster = Cluster("r1: 2xH100")
    array(cluster, 4, 2, priority=3)
    cluster.tick()
    cluster.submit("high", 8, priority=1)
    for _ in range(4):
        cluster.tick(60)
        assert len([name for name in holding(cluster) if name != "high"]) <= 2
    assert cluster.phase("high") == "RUNNING"
    cluster.end("high")
    cluster.tick(60)
    assert cluster.running() == ["a[0]", "a[1]"]


def test_a_removed_element_counts_no_more() -> None:
    cluster = Cluster("r1: 8xH100")
    array(cluster, 3, 1)
    cluster.tick()
    cluster.snapshot.set_job_intent("a[0]", None)
    cluster.tick(1)
    assert cluster.running() == ["a[1]"]
