"""Planned starts: who is promised which nodes, and that nobody who is let through delays it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.core.types import ReservationIntent
from tests.builders import HOUR, MINUTE, Cluster, team


def blocked_gang(**policy: Any) -> Cluster:
    """Eight hosts, one of them busy for two hours; a gang waits for all of them."""
    cluster = Cluster("r1: 8xH100", **policy)
    cluster.submit("busy", 8, max_runtime_ms=2 * HOUR)
    cluster.tick()
    cluster.submit("gang", 64, max_runtime_ms=3 * HOUR)
    cluster.tick(60)
    return cluster


@pytest.mark.parametrize(
    ("limit_ms", "phase", "reason"),
    [
        pytest.param(119 * MINUTE, "RUNNING", None, id="ends in time"),
        pytest.param(120 * MINUTE, "PENDING", "HELD_FOR_LARGER_JOB", id="ends too late"),
    ],
)
def test_behind_a_blocked_gang_goes_what_ends_in_time(limit_ms: int, phase: str, reason: str | None) -> None:
    cluster = blocked_gang()
    cluster.submit("small", 8, max_runtime_ms=limit_ms)
    cluster.tick()
    assert (cluster.phase("small"), cluster.reason("small")) == (phase, reason)


def test_the_gang_is_promised_named_hosts_and_a_start() -> None:
    cluster = blocked_gang()
    (held,) = cluster.snapshot.reservations.held
    assert (held.job, len(held.nodes), held.start_ms) == ("gang", 8, 2 * HOUR)


def test_a_promise_moves_to_an_earlier_start_and_never_to_a_later_one() -> None:
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 8, max_runtime_ms=4 * HOUR)
    cluster.submit("b", 8, max_runtime_ms=2 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16)
    starts = []
    for at in range(11):
        cluster.submit(f"long{at}", 8, max_runtime_ms=3 * HOUR)
        cluster.tick(600)
        starts.append(next(held.start_ms for held in cluster.snapshot.reservations.held if held.job == "gang"))
    assert starts == [4 * HOUR] * 11
    cluster.end("a")
    cluster.tick(1)
    assert cluster.phase("gang") == "PENDING"
    moved = next(held.start_ms for held in cluster.snapshot.reservations.held if held.job == "gang")
    assert moved == 2 * HOUR


def test_without_backfill_nothing_passes_a_blocked_job() -> None:
    cluster = blocked_gang(backfill=False)
    cluster.submit("small", 1, max_runtime_ms=MINUTE)
    cluster.tick(1)
    assert cluster.reason("small") == "BEHIND_IN_QUEUE"


def test_a_gang_may_be_passed_until_it_is_due_for_a_promise() -> None:
    cluster = blocked_gang(reservation_after_ms=30 * MINUTE)
    cluster.submit("early", 8)
    cluster.tick()
    assert cluster.phase("early") == "RUNNING"
    cluster.tick(1800)
    cluster.submit("late", 8)
    cluster.tick()
    assert cluster.reason("late") == "HELD_FOR_LARGER_JOB"


def test_a_stream_of_small_jobs_starves_no_gang() -> None:
    """The bound: a gang that is promised a start begins by the latest limit among those that ran when it came."""
    cluster = Cluster("r1: 4xH100")
    for at in range(4):
        cluster.submit(f"w{at}", 8, max_runtime_ms=30 * MINUTE)
        cluster.tick(300)
    cluster.submit("gang", 32)
    for at in range(4, 20):
        cluster.submit(f"w{at}", 8, max_runtime_ms=30 * MINUTE)
        cluster.tick(300)
    started = cluster.snapshot.jobs["gang"].decision.first_started_ms
    assert started is not None and started <= (15 + 30 + 5) * MINUTE


def test_an_older_job_of_the_team_goes_before_a_younger_one_with_a_promise() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("old", 8)
    cluster.tick()
    cluster.submit("young", 8)
    cluster.tick(60)
    cluster.submit("urgent", 8, priority=0)
    cluster.tick(60)
    assert cluster.running() == ["urgent"]
    cluster.end("urgent")
    cluster.tick(1)
    assert cluster.running() == ["old"]


def test_a_booking_keeps_hosts_for_its_team_and_stops_nobody() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("a"), team("b")])
    cluster.submit("b0", 8, team="b", max_runtime_ms=10 * HOUR)
    cluster.tick()
    booking = ReservationIntent("demo", "a", 16, "H100", HOUR, 3 * HOUR)
    cluster.snapshot.set_reservation_intent("demo", booking)
    cluster.submit("b1", 8, team="b", max_runtime_ms=5 * HOUR)
    cluster.tick(60)
    assert cluster.reason("b1") == "RESERVED"
    cluster.submit("b2", 8, team="b", max_runtime_ms=30 * MINUTE)
    cluster.tick(60)
    assert cluster.running() == ["b0", "b2"]
    cluster.end("b2")
    cluster.tick(3600)
    cluster.submit("a1", 8, team="a")
    cluster.tick(1)
    assert cluster.running() == ["a1", "b0"]
    assert cluster.stops() == 0
    cluster.end("a1")
    cluster.tick(2 * 3600)
    assert cluster.running() == ["b0", "b1"]
