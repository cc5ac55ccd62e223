"""Why a job waits: the code, the numbers behind it, who holds what it waits for, and what would start it now."""

from __future__ import annotations

import pytest

from scheduler.core.reasons import explain
from scheduler.core.types import Hint, JobIntent
from tests.builders import HOUR, MINUTE, Cluster, spec, team


def test_too_few_free_gpus_come_with_who_holds_the_others_and_until_when() -> None:
    cluster = Cluster("r1: 2xH100", "r2: 4xA100")
    cluster.submit("other", 8, max_runtime_ms=2 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16)
    cluster.tick()
    told = explain(cluster.snapshot, cluster.policy, "gang", cluster.now_ms)
    assert (told.needed, told.free, told.where) == (16, 8, "H100 in az1")
    assert [(holder.job, holder.gpus, holder.until_ms) for holder in told.holders] == [("other", 8, 2 * HOUR)]
    assert told.start_ms == 2 * HOUR
    assert [(change.field, change.value) for change in told.changes] == [("gpu_type", "A100"), ("gpu_count", 8)]


def test_a_ceiling_is_named_with_what_is_used_of_it() -> None:
    cluster = Cluster("r1: 2xH100", quota=[team("dept", ceiling={"H100": 12}), team("ml", "dept")])
    cluster.submit("one", 8)
    cluster.submit("two", 8)
    cluster.tick()
    told = explain(cluster.snapshot, cluster.policy, "two", cluster.now_ms)
    assert (told.barrier, told.used, told.bound) == ("dept", 8, 12)
    assert told.changes[0].value == 4


def test_a_shorter_limit_starts_what_would_delay_a_larger_job() -> None:
    cluster = Cluster("r1: 2xH100")
    cluster.submit("busy", 8, max_runtime_ms=2 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16)
    cluster.tick(60)
    cluster.submit("small", 8)
    cluster.tick()
    told = explain(cluster.snapshot, cluster.policy, "small", cluster.now_ms)
    assert told.reason == "HELD_FOR_LARGER_JOB"
    assert (told.changes[0].field, told.changes[0].value) == ("max_runtime_hours", "1")


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        pytest.param(Hint.REQUIRE_SAME_RACK, "TOPOLOGY", id="the rack that it requires"),
        pytest.param(Hint.PREFER_SAME_RACK, "FRAGMENTED", id="the shape rule"),
    ],
)
def test_free_gpus_that_do_not_fit_are_told_by_what_fails(hint: Hint, reason: str) -> None:
    cluster = Cluster("r1: 2xH100", "r2: 2xH100")
    whole = reason == "TOPOLOGY"
    for at in range(0 if whole else 4):
        cluster.submit(f"small{at}", 5)
    cluster.tick()
    cluster.submit("gang", 24 if whole else 12, hint=hint)
    cluster.tick()
    assert cluster.reason("gang") == reason


def test_a_held_job_and_one_that_backs_off_say_so() -> None:
    cluster = Cluster("r1: 1xH100", quarantine_after=9)
    cluster.snapshot.set_job_intent("held", JobIntent(spec("held", 8), hold=True))
    cluster.submit("failing", 8)
    cluster.tick()
    cluster.end("failing", code=1)
    cluster.tick(1)
    assert explain(cluster.snapshot, cluster.policy, "held", cluster.now_ms).reason == "HELD_BY_USER"
    told = explain(cluster.snapshot, cluster.policy, "failing", cluster.now_ms)
    assert told.reason == "BACKOFF"
    assert told.not_before_ms is not None and told.not_before_ms <= cluster.now_ms + MINUTE


def test_a_reason_is_written_once_and_again_only_when_it_changes() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("running", 8, max_runtime_ms=HOUR)
    cluster.submit("waiting", 8)
    for _ in range(5):
        cluster.tick(60)
    told = [event for event in cluster.events if event.kind == "reason" and event.job == "waiting"]
    assert len(told) == 1
