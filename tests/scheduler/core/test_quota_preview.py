"""What an edit of the quota tree does, told before it does it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scheduler.core.quota_preview import QuotaPreview, preview
from scheduler.core.scratch import records
from scheduler.core.types import Policy, QuotaNode, QuotaTree, Reason, StopCause
from tests.builders import HOUR, Cluster, picture, team


def ask(cluster: Cluster, *nodes: QuotaNode) -> QuotaPreview:
    before = picture(cluster.snapshot)
    found = preview(records(cluster.snapshot), QuotaTree(nodes), Policy(), cluster.now_ms)
    assert picture(cluster.snapshot) == before, "the preview left a trace"
    return found


@pytest.fixture
def full() -> Cluster:
    """Four hosts: a holds three with jobs of two hours, b one; b waits for two more and may not have them."""
    cluster = Cluster("r1: 4xH100", quota=[team("a"), team("b", ceiling={"H100": 8})])
    for name in ("a1", "a2", "a3"):
        cluster.submit(name, 8, team="a", max_runtime_ms=2 * HOUR)
    cluster.submit("b1", 8, team="b", max_runtime_ms=6 * HOUR)
    cluster.tick()
    cluster.submit("b2", 8, team="b", max_runtime_ms=HOUR)
    cluster.tick(600)
    assert cluster.running() == ["a1", "a2", "a3", "b1"]
    return cluster


def test_it_tells_how_far_it_is(full: Cluster) -> None:
    told: list[Fraction] = []
    nodes = QuotaTree((team("a"), team("b")))

    def tell(done: Fraction) -> bool:
        told.append(done)
        return False

    assert preview(records(full.snapshot), nodes, Policy(), full.now_ms, tell).whole
    assert told[0] == 0
    assert told == sorted(told)
    assert all(done <= 1 for done in told)


def test_the_same_tree_does_nothing(full: Cluster) -> None:
    found = ask(full, team("a"), team("b", ceiling={"H100": 8}))
    assert found.quiet
    assert found.until_ms > full.now_ms + 6 * HOUR


def test_a_raised_ceiling_lets_the_next_one_in_at_anothers_cost(full: Cluster) -> None:
    found = ask(full, team("a"), team("b"))
    (stop,) = found.stopped
    assert (stop.team, stop.cause, stop.for_job, stop.for_team) == ("a", StopCause.RECLAIM, "b2", "b")
    (earlier,) = [shift for shift in found.earlier if shift.job == "b2"]
    assert earlier.before_ms is not None
    assert earlier.after_ms is not None
    assert earlier.after_ms < earlier.before_ms
    hit = {(shift.node, shift.before.own, shift.after.own) for shift in found.levels if shift.before and shift.after}
    assert hit == {("a", 24, 16), ("b", 8, 16)}


def test_a_floor_protects_whom_a_share_would_not(full: Cluster) -> None:
    found = ask(full, team("a", floor={"H100": 24}), team("b"))
    assert found.stopped == ()
    assert [(shift.job, shift.after_ms) for shift in found.earlier] == [("b2", 2 * HOUR)], "when a's jobs have ended"


def test_a_lowered_ceiling_lets_what_runs_run_on(full: Cluster) -> None:
    found = ask(full, team("a", ceiling={"H100": 16}), team("b", ceiling={"H100": 8}))
    (over,) = found.over
    assert (over.node, over.gpu_type, over.held, over.ceiling, over.jobs) == ("a", "H100", 24, 16, 3)
    assert found.stopped == ()


def test_jobs_that_could_never_start_any_more_are_named(full: Cluster) -> None:
    found = ask(full, team("a"), team("b", ceiling={"H100": 4}))
    (barred,) = found.barred
    assert (barred.job, barred.refusal.code) == ("b2", Reason.QUOTA_CEILING)
    assert [shift.job for shift in found.later] == ["b2"]


def test_a_team_that_leaves_the_tree_bars_its_jobs(full: Cluster) -> None:
    found = ask(full, team("a"))
    assert [one.job for one in found.barred] == ["b2"]
    assert [(shift.node, shift.after is not None) for shift in found.levels if shift.node == "b"] == [("b", True)]


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        pytest.param([team("a", floor={"H100": 24}), team("b", floor={"H100": 16})], [("", 40)], id="all together"),
        pytest.param([team("a", floor={"H100": 40}), team("b")], [("", 40), ("a", 40)], id="one alone"),
        pytest.param([team("a", floor={"H100": 16}), team("b", floor={"H100": 16})], [], id="just enough"),
        pytest.param([team("a", floor={"A100": 1}), team("b")], [("", 1), ("a", 1)], id="a type that there is none of"),
    ],
)
def test_floors_beyond_the_fleet(full: Cluster, nodes: list[QuotaNode], where: list[tuple[str, int]]) -> None:
    assert [(one.node, one.promised) for one in ask(full, *nodes).undeliverable] == where


def test_out_of_time_it_tells_how_far_it_saw(full: Cluster) -> None:
    nodes = QuotaTree((team("a"), team("b")))
    found = preview(records(full.snapshot), nodes, Policy(), full.now_ms, lambda done: True)
    assert not found.whole
    assert (found.until_ms, found.stopped, found.earlier) == (full.now_ms - 1, (), ())
    assert found.levels != ()
