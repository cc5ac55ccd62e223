"""A gang that prefers one rack and waits a while for it; hosts with NVLink, required or preferred."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.reasons import explain
from scheduler.core.types import Hint, JobIntent, NodeIntent, NvLink
from tests.builders import HOUR, MINUTE, Cluster

TWO_RACKS = ("r1: 2xH100", "r2: 2xH100")


def half_full() -> Cluster:
    """One host of each of two racks is taken for three hours."""
    cluster = Cluster(*TWO_RACKS)
    for name in ("one", "other", "third"):
        cluster.submit(name, 8, hint=Hint.REQUIRE_SAME_HOST, max_runtime_ms=3 * HOUR)
    cluster.tick()
    cluster.end("one")
    cluster.tick()
    assert len({node[:2] for node in cluster.on("other") + cluster.on("third")}) == 2
    return cluster


@pytest.mark.parametrize(
    ("wishes", "minutes", "phase"),
    [
        pytest.param({}, 0, "RUNNING", id="takes two racks at once without patience"),
        pytest.param({"topology_wait_ms": 0}, 0, "RUNNING", id="and with none"),
        pytest.param({"topology_wait_ms": 10 * MINUTE}, 9, "PENDING", id="waits for one rack"),
        pytest.param({"topology_wait_ms": 10 * MINUTE}, 10, "RUNNING", id="and takes two when its time is over"),
        pytest.param(
            {"topology_wait_ms": 10 * MINUTE, "hint": Hint.ANY}, 0, "RUNNING", id="not where any place will do"
        ),
        pytest.param(
            {"topology_wait_ms": MINUTE, "hint": Hint.REQUIRE_SAME_RACK}, 9, "PENDING", id="required is required"
        ),
    ],
)
def test_a_gang_whose_rack_is_not_free(wishes: dict[str, Any], minutes: int, phase: str) -> None:
    cluster = half_full()
    cluster.submit("gang", 16, max_runtime_ms=HOUR, **wishes)
    cluster.tick()
    cluster.tick(60 * minutes)
    assert cluster.phase("gang") == phase


def test_a_timer_wakes_the_plan_when_patience_ends() -> None:
    cluster = half_full()
    cluster.submit("gang", 16, topology_wait_ms=10 * MINUTE)
    cluster.tick()
    assert cluster.reason("gang") == "TOPOLOGY"
    wake = cluster.plan().wake_ms
    assert wake is not None and wake <= cluster.now_ms + 10 * MINUTE
    words = explain(cluster.snapshot, cluster.policy, "gang", cluster.now_ms)
    assert "10 more minutes" in words.words
    assert words.changes[0].field == "topology_wait_minutes"


def test_one_rack_that_comes_free_meanwhile_is_taken() -> None:
    cluster = half_full()
    cluster.submit("gang", 16, topology_wait_ms=30 * MINUTE)
    cluster.tick(60)
    cluster.end("other")
    cluster.tick(60)
    assert len({node[:2] for node in cluster.on("gang")}) == 1


def test_there_is_nothing_to_wait_for_where_no_rack_holds_the_gang() -> None:
    cluster = Cluster(*TWO_RACKS)
    cluster.submit("gang", 24, topology_wait_ms=30 * MINUTE)
    cluster.tick()
    assert cluster.phase("gang") == "RUNNING"


def test_a_rack_that_is_built_gives_a_reason_to_wait() -> None:
    cluster = Cluster("r1: 1xH100", "r2: 1xH100", "r3: 1xH100")
    cluster.submit("long", 8, max_runtime_ms=9 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16, topology_wait_ms=30 * MINUTE, max_runtime_ms=HOUR)
    cluster.node(NodeIntent("r9-1", "az1", "r9", "H100", cordon="new"))
    cluster.node(NodeIntent("r9-2", "az1", "r9", "H100", cordon="new"))
    cluster.tick()
    assert cluster.phase("gang") == "PENDING"


def test_patience_counts_from_the_release_of_a_hold() -> None:
    cluster = half_full()
    cluster.submit("gang", 16, topology_wait_ms=10 * MINUTE, max_runtime_ms=HOUR)
    held = replace(cluster.snapshot.jobs["gang"].intent, version=2, hold=True)
    cluster.snapshot.set_job_intent("gang", held)
    cluster.tick()
    cluster.tick(15 * 60)
    cluster.snapshot.set_job_intent("gang", JobIntent(held.spec, version=3))
    cluster.tick(60)
    assert cluster.phase("gang") == "PENDING"
    cluster.tick(10 * 60)
    assert cluster.phase("gang") == "RUNNING"


def test_nobody_is_stopped_for_a_tighter_place() -> None:
    cluster = Cluster(*TWO_RACKS)
    for name in ("a", "b", "c"):
        cluster.submit(name, 8, priority=3, max_runtime_ms=3 * HOUR)
    cluster.tick()
    cluster.end("a")
    cluster.submit("gang", 16, priority=1, topology_wait_ms=10 * MINUTE)
    cluster.tick()
    assert (cluster.stops(), cluster.phase("gang")) == (0, "PENDING")
    cluster.tick(10 * 60)
    assert (cluster.stops(), cluster.phase("gang")) == (0, "RUNNING")


@pytest.mark.parametrize(
    ("nvlink", "linked", "expected"),
    [
        pytest.param(NvLink.ANY, 0, ["plain-1"], id="any host"),
        pytest.param(NvLink.PREFER, 1, ["linked-1"], id="one with NVLink if there is one"),
        pytest.param(NvLink.PREFER, 0, ["plain-1"], id="else one without"),
        pytest.param(NvLink.REQUIRE, 1, ["linked-1"], id="one with NVLink or none"),
        pytest.param(NvLink.REQUIRE, 0, [], id="and waits for it"),
    ],
)
def test_nvlink(nvlink: NvLink, linked: int, expected: list[str]) -> None:
    cluster = Cluster()
    cluster.node(NodeIntent("plain-1", "az1", "r1", "H100", nvlink=False))
    cluster.node(NodeIntent("linked-1", "az1", "r1", "H100"))
    if not linked:
        cluster.submit("taken", 8, nvlink=NvLink.REQUIRE, max_runtime_ms=HOUR)
        cluster.tick()
    cluster.submit("job", 8, nvlink=nvlink, max_runtime_ms=HOUR)
    cluster.tick()
    assert cluster.on("job") == expected
    assert cluster.reason("job") == (None if expected else "TOPOLOGY")
    if not expected:
        (promise,) = cluster.snapshot.reservations.held
        assert promise.nodes == ("linked-1",)


def test_those_without_nvlink_are_not_stopped_for_one_that_requires_it() -> None:
    cluster = Cluster()
    cluster.node(NodeIntent("plain-1", "az1", "r1", "H100", nvlink=False))
    cluster.node(NodeIntent("linked-1", "az1", "r1", "H100"))
    cluster.submit("cheap", 8, priority=3)
    cluster.tick()
    cluster.submit("dear", 8, priority=3)
    cluster.tick(600)
    where = {name: cluster.on(name)[0] for name in ("cheap", "dear")}
    cluster.submit("top", 8, priority=1, nvlink=NvLink.REQUIRE)
    cluster.tick(60)
    (stopped,) = [name for name in where if cluster.snapshot.jobs[name].decision.stops]
    assert where[stopped] == "linked-1"
    assert cluster.on("top") == ["linked-1"]
