"""A newest checkpoint that is torn: what the leader counts on instead, in each phase."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.checkpoints import fallen_back
from scheduler.core.orders import orders
from scheduler.core.types import EventKind, JobDecision, JobIntent, NodeReport, Phase, StopCause, Torn
from tests.builders import MINUTE, Cluster, spec

NEW, OLD = "s3://b/j/a00001-s000000000020/manifest.json", "s3://b/j/a00001-s000000000010/manifest.json"
TORN = Torn((NEW,), OLD, 10 * MINUTE, 600_000, "state.npz is not there")


def running(saved: str = NEW, torn: Torn | None = None) -> Cluster:
    """One job that has run for 30 minutes and reported a checkpoint at 20."""
    cluster = Cluster("r1: 2xH100")
    cluster.submit("job", 8)
    cluster.tick()
    cluster.now_ms += 30 * MINUTE
    report(cluster, saved)
    if torn is not None:
        tell(cluster, torn)
    cluster.apply(cluster.plan())
    return cluster


def report(cluster: Cluster, manifest: str, work_ms: int = 20 * MINUTE) -> None:
    (node,) = cluster.on("job")
    held = cluster.snapshot.node(node).report
    assert held is not None
    gang = replace(held.gangs[0], saved_work_ms=work_ms, saved_at_ms=1_200_000, manifest=manifest, step=20)
    cluster.snapshot.set_node_report(node, NodeReport("boot", (gang,)))


def tell(cluster: Cluster, torn: Torn) -> None:
    cluster.snapshot.set_job_intent("job", JobIntent(spec("job"), version=2, torn=torn))


def decision(cluster: Cluster) -> JobDecision:
    return cluster.snapshot.jobs["job"].decision


def test_a_reported_checkpoint_is_what_the_next_attempt_resumes_from() -> None:
    cluster = running()
    assert (decision(cluster).manifest, decision(cluster).saved_work_ms) == (NEW, 20 * MINUTE)
    saved = next(event for event in cluster.events if event.kind is EventKind.CHECKPOINT)
    assert (saved.detail["manifest"], saved.detail["step"]) == (NEW, 20)
    lose(cluster)
    assert decision(cluster).resume_from == NEW
    (assignment,) = orders(cluster.snapshot, cluster.on("job")[0])
    assert assignment.resume_from == NEW
    bind = [event for event in cluster.events if event.kind is EventKind.BIND][-1]
    assert bind.detail["resume_from"] == NEW


def lose(cluster: Cluster) -> None:
    """The job's host is gone, the next attempt is bound elsewhere and not released yet."""
    (node,) = cluster.on("job")
    cluster.deaf = set(cluster.snapshot.nodes)
    cluster.snapshot.set_node_intent(node, None)
    for _ in range(3):
        cluster.apply(cluster.plan())
    assert decision(cluster).phase is Phase.STARTING


def test_while_it_runs_the_last_good_one_counts_and_the_report_of_the_torn_one_no_more() -> None:
    cluster = running()
    tell(cluster, TORN)
    for _ in range(3):
        cluster.apply(cluster.plan())
    assert (decision(cluster).manifest, decision(cluster).saved_work_ms) == (OLD, 10 * MINUTE)
    told = [event for event in cluster.events if event.kind is EventKind.TORN]
    assert [(event.detail["manifest"], event.detail["instead"]) for event in told] == [(NEW, OLD)]


def test_a_newer_one_counts_again() -> None:
    cluster = running(torn=TORN)
    cluster.apply(cluster.plan())
    report(cluster, "s3://b/j/a00001-s000000000030/manifest.json", 28 * MINUTE)
    cluster.apply(cluster.plan())
    assert decision(cluster).saved_work_ms == 28 * MINUTE


def test_until_the_ranks_are_released_they_are_told_to_resume_from_the_good_one() -> None:
    cluster = running()
    lose(cluster)
    before = decision(cluster)
    tell(cluster, TORN)
    cluster.apply(cluster.plan())
    after = decision(cluster)
    assert (after.resume_from, after.banked_ms, after.manifest) == (OLD, 10 * MINUTE, OLD)
    assert after.lost_ms - before.lost_ms == 10 * MINUTE


def test_a_checkpoint_that_was_the_only_one_leaves_nothing() -> None:
    cluster = running(torn=Torn((NEW,), why="no JSON"))
    cluster.apply(cluster.plan())
    assert (decision(cluster).manifest, decision(cluster).saved_work_ms) == ("", 0)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.CANCELLED])
def test_a_job_that_is_over_stays_as_it_ended(phase: Phase) -> None:
    cluster = running()
    tell(cluster, TORN)
    job = cluster.snapshot.jobs["job"]
    job.decision = replace(job.decision, phase=phase)
    assert fallen_back(job, cluster.now_ms) is None


def test_while_it_waits_what_only_the_torn_one_held_is_lost() -> None:
    cluster = running()
    job = cluster.snapshot.jobs["job"]
    tell(cluster, TORN)
    job.decision = replace(job.decision, phase=Phase.PENDING, lost_ms=5)
    moved = fallen_back(job, cluster.now_ms)
    assert moved is not None
    assert (moved[0].lost_ms, moved[0].manifest) == (5 + 10 * MINUTE, OLD)


def test_a_job_that_starts_anew_each_time_resumes_from_nothing() -> None:
    from scheduler.core import attempts
    from scheduler.core.types import OnLoss

    cluster = running()
    cluster.snapshot.set_job_intent("job", JobIntent(spec("job", on_preemption=OnLoss.RESTART), version=2))
    job = cluster.snapshot.jobs["job"]
    stopping, _ = attempts.asked(job, StopCause.PREEMPT, cluster.now_ms, None, cluster.now_ms)
    after, _ = attempts.returned(job, stopping, cluster.now_ms)
    assert after.manifest == ""
