"""When every waiting job is expected to start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.forecast import FINEST_MS, HORIZON_MS, forecast
from scheduler.core.scratch import records
from scheduler.core.types import JobIntent, Window
from tests.builders import HOUR, Cluster, picture, spec


def starts(cluster: Cluster, **bounds) -> dict[str, int]:
    before = picture(cluster.snapshot)
    found = forecast(records(cluster.snapshot), cluster.policy, **bounds)
    assert picture(cluster.snapshot) == before
    assert all(at >= cluster.now_ms for at in found.starts.values())
    return found.starts


def near(at_ms: int):
    """At the moment told, or up to the grid's next line behind it."""
    return pytest.approx(at_ms + max(FINEST_MS, at_ms // 100) // 2, abs=max(FINEST_MS, at_ms // 50))


def test_one_after_the_other_as_limits_end():
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 16, max_runtime_ms=3 * HOUR)
    cluster.tick()
    cluster.submit("b", 16, max_runtime_ms=2 * HOUR)
    cluster.submit("c", 16, max_runtime_ms=2 * HOUR, submitted_ms=1)
    cluster.tick()
    assert starts(cluster) == {"b": near(3 * HOUR), "c": near(5 * HOUR)}


def test_what_fits_behind_a_promise_starts_now():
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 8, max_runtime_ms=3 * HOUR)
    cluster.submit("big", 16)
    cluster.tick()
    cluster.submit("short", 8, max_runtime_ms=HOUR)
    found = starts(cluster)
    assert found["short"] == cluster.now_ms
    assert found["big"] == near(3 * HOUR)


def test_a_job_behind_another_starts_when_that_has_used_up_its_limit():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8, max_runtime_ms=HOUR)
    cluster.tick()
    cluster.snapshot.set_job_intent("b", JobIntent(spec("b", 8, after=("a",))))
    assert starts(cluster) == {"b": near(HOUR)}


def test_a_job_that_leaves_for_maintenance_goes_on_elsewhere_with_its_work():
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 8, max_runtime_ms=3 * HOUR)
    cluster.tick()
    (host,) = cluster.on("a")
    intent = cluster.snapshot.nodes[host].intent
    assert intent is not None
    cluster.snapshot.set_node_intent(host, replace(intent, maintenance=(Window(HOUR, 9 * HOUR),)))
    cluster.snapshot.set_job_intent("b", JobIntent(spec("b", 8, after=("a",))))
    assert starts(cluster) == {"b": near(3 * HOUR)}


def test_a_held_job_is_unknown():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8)
    cluster.snapshot.set_job_intent("a", replace(cluster.snapshot.jobs["a"].intent, hold=True))
    assert starts(cluster) == {}


def test_beyond_the_horizon_is_unknown():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8, max_runtime_ms=2 * HORIZON_MS)
    cluster.tick()
    cluster.submit("b", 8)
    assert starts(cluster) == {}


def test_the_forecast_ends_where_its_cost_does():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8, max_runtime_ms=HOUR)
    cluster.tick()
    cluster.submit("b", 8)
    assert starts(cluster, steps=1) == {}
    assert starts(cluster, go_on=lambda: False) == {}


def test_a_preempted_job_comes_back():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("low", 8, priority=3)
    cluster.tick(60)
    cluster.submit("high", 8, priority=1, max_runtime_ms=HOUR)
    cluster.apply(cluster.plan())
    assert starts(cluster)["high"] <= cluster.now_ms + 2 * cluster.policy.grace_ms
