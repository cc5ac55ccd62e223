"""The order of waiting jobs by age, length and size, and whole hosts gathered for the first blocked gang."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.queue import ranked
from scheduler.core.types import Policy
from scheduler.core.waiting import GPUS_WEIGHED, Weights, age_key
from tests.builders import HOUR, MINUTE, Cluster, spec

WEIGHED: dict[str, Any] = {
    "length_weight": Fraction(1),
    "length_most_ms": 60 * HOUR,
    "size_ms": 24 * HOUR // GPUS_WEIGHED,
}


@pytest.mark.parametrize(
    ("policy", "wishes", "hours"),
    [
        pytest.param({}, {"gpus": 128}, 0, id="age alone where nothing is set"),
        pytest.param(WEIGHED | {"size_ms": 0}, {"max_runtime_ms": 8 * HOUR}, 8, id="later by its limit"),
        pytest.param(WEIGHED | {"size_ms": 0}, {"max_runtime_ms": 900 * HOUR}, 60, id="a long limit up to the bound"),
        pytest.param(WEIGHED, {"gpus": 128, "max_runtime_ms": HOUR}, -23, id="a large short gang before its time"),
        pytest.param(WEIGHED, {"gpus": 512, "max_runtime_ms": HOUR}, -23, id="size up to the bound"),
        pytest.param(WEIGHED | {"order": "easy"}, {"gpus": 128}, 0, id="easy goes by age"),
    ],
)
def test_a_job_counts_as_having_come(policy: dict[str, Any], wishes: dict[str, Any], hours: int) -> None:
    assert Weights.of(Policy(**policy)).shift(spec("job", **wishes)) == hours * HOUR


def test_short_jobs_come_first_and_long_ones_when_they_have_waited() -> None:
    cluster = Cluster("r1: 1xH100", **WEIGHED)
    cluster.submit("busy", 8, max_runtime_ms=100 * HOUR)
    cluster.tick()
    cluster.submit("long", 8, max_runtime_ms=48 * HOUR)
    cluster.tick(46 * 3600)
    cluster.submit("early", 8, max_runtime_ms=HOUR)
    cluster.tick(2 * 3600)
    cluster.submit("late", 8, max_runtime_ms=HOUR)
    assert ranked(cluster.snapshot, cluster.policy, cluster.now_ms) == ["early", "long", "late"]


@given(
    first=st.tuples(st.integers(1, 1024), st.integers(1, 2000)),
    second=st.tuples(st.integers(1, 1024), st.integers(1, 2000)),
    later_ms=st.integers(1, 500 * HOUR),
)
def test_nobody_who_comes_much_later_is_tried_before(
    first: tuple[int, int], second: tuple[int, int], later_ms: int
) -> None:
    weights = Weights.of(Policy(**WEIGHED))
    bound = weights.most_ms + GPUS_WEIGHED * weights.size_ms
    early = spec("a", first[0], max_runtime_ms=first[1] * HOUR)
    late = spec("b", second[0], max_runtime_ms=second[1] * HOUR, submitted_ms=bound + later_ms)
    assert age_key(early, weights) < age_key(late, weights)


@pytest.mark.parametrize(
    ("gathers", "small", "gang"),
    [
        pytest.param(1, "PENDING", "RUNNING", id="gathered for it"),
        pytest.param(0, "RUNNING", "PENDING", id="let to whoever ends before its planned start"),
    ],
)
def test_a_host_that_comes_free_before_the_plan(gathers: int, small: str, gang: str) -> None:
    cluster = Cluster("r1: 2xH100", gathers=gathers)
    cluster.submit("a", 8, max_runtime_ms=48 * HOUR)
    cluster.submit("b", 8, max_runtime_ms=48 * HOUR)
    cluster.tick()
    cluster.submit("gang", 16, max_runtime_ms=HOUR)
    cluster.tick(60)
    cluster.end("a")
    cluster.submit("small", 8, max_runtime_ms=10 * HOUR)
    cluster.tick(60)
    assert cluster.phase("small") == small
    cluster.end("b")
    cluster.tick(60)
    assert cluster.phase("gang") == gang


def test_broken_hosts_go_on_being_filled_while_whole_ones_are_gathered() -> None:
    cluster = Cluster("r1: 3xH100", gathers=1)
    cluster.submit("a", 8, max_runtime_ms=48 * HOUR)
    cluster.submit("b", 4, max_runtime_ms=48 * HOUR)
    cluster.tick()
    cluster.submit("gang", 24, max_runtime_ms=HOUR)
    cluster.tick(60)
    cluster.submit("small", 4, max_runtime_ms=30 * MINUTE)
    cluster.tick()
    assert cluster.on("small") == cluster.on("b")


def test_easy_keeps_one_reservation_the_heads() -> None:
    cluster = Cluster("r1: 2xH100", "r2: 2xA100", order="easy")
    for kind in ("H100", "A100"):
        for at in range(2):
            cluster.submit(f"busy {kind} {at}", 8, gpu_type=kind, max_runtime_ms=(at + 1) * HOUR)
    cluster.tick()
    for name in ("first", "second", "third"):
        cluster.submit(name, 16, max_runtime_ms=HOUR)
        cluster.tick(1)
    cluster.submit("other", 16, gpu_type="A100", max_runtime_ms=HOUR)
    cluster.tick(1)
    assert sorted(held.job or "" for held in cluster.snapshot.reservations.held) == ["first", "other"]
    cluster.tick(2 * 3600)
    assert cluster.running() == ["first", "other"]
    assert [held.job for held in cluster.snapshot.reservations.held] == ["second"]
