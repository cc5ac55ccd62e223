"""What only gangs of real processes report: one node's manifest for all of them, and the port at which they meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.orders import orders
from scheduler.core.types import (
    CheckpointSpec,
    EventKind,
    GangReport,
    NodeIntent,
    NodeReport,
    OnLoss,
    Phase,
    RankReport,
    RankState,
    StopCause,
)
from tests.builders import MINUTE, SECOND, Cluster

SAVES = CheckpointSpec(every_ms=MINUTE, takes_ms=SECOND, path="s3://b/p/")
FIRST, SECOND_ONE = "s3://b/p/1/manifest.json", "s3://b/p/2/manifest.json"


def _cluster() -> Cluster:
    cluster = Cluster("r1: 2xH100")
    cluster.submit("gang", 16, checkpoint=SAVES)
    return cluster


def _tell(cluster: Cluster, node: str, **fields: object) -> None:
    """Let the node's report of the gang say something else."""
    report = cluster.snapshot.node(node).report
    assert report is not None
    (gang,) = report.gangs
    cluster.snapshot.set_node_report(node, NodeReport("boot", (replace(gang, **fields),)))  # type: ignore[arg-type]


def _decide(cluster: Cluster, seconds: float = 0) -> None:
    """One plan, without the obedient agents of the builder."""
    cluster.now_ms += int(seconds * 1000)
    cluster.apply(cluster.plan())


def _running() -> Cluster:
    cluster = _cluster()
    cluster.tick()
    assert cluster.phase("gang") == "RUNNING"
    cluster.now_ms += 10 * MINUTE
    return cluster


def test_the_ranks_meet_at_the_port_that_the_host_of_rank_0_keeps() -> None:
    cluster = _cluster()
    cluster.deaf.update(("r1-1", "r1-2"))
    cluster.node(NodeIntent("r1-1", "az1", "r1", "H100", address="10.0.0.1:8000"))
    cluster.tick()
    assert {order.master_port for node in ("r1-1", "r1-2") for order in orders(cluster.snapshot, node)} == {0}
    for node, port in (("r1-1", 29_500), ("r1-2", 0)):
        gang = replace(cluster._gang(node, "gang"), port=port)
        cluster.snapshot.set_node_report(node, NodeReport("boot", (gang,)))
    _decide(cluster)
    told = [orders(cluster.snapshot, node)[0] for node in ("r1-1", "r1-2")]
    assert [(order.master_addr, order.master_port) for order in told] == [("10.0.0.1", 29_500)] * 2


@pytest.mark.parametrize(
    ("address", "host"),
    [
        pytest.param("", "r1-1", id="none: the name"),
        pytest.param("gpu1.example.com", "gpu1.example.com", id="a name"),
        pytest.param("gpu1.example.com:8000", "gpu1.example.com", id="a name with a port"),
        pytest.param("[fd00::1]:8000", "fd00::1", id="IPv6 with a port"),
        pytest.param("fd00::1", "fd00::1", id="IPv6"),
    ],
)
def test_where_the_host_of_rank_0_is_reached(address: str, host: str) -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.node(NodeIntent("r1-1", "az1", "r1", "H100", address=address))
    cluster.submit("job", 8)
    cluster.tick()
    job = cluster.snapshot.jobs["job"]
    cluster.snapshot.set_job_decision("job", replace(job.decision, master_port=1))
    assert orders(cluster.snapshot, "r1-1")[0].master_addr == host


def test_the_manifest_of_one_node_is_the_gangs() -> None:
    cluster = _running()
    _tell(cluster, "r1-2", saved_work_ms=5 * MINUTE, saved_at_ms=cluster.now_ms, manifest=FIRST, step=7)
    _decide(cluster)
    decision = cluster.snapshot.jobs["gang"].decision
    assert (decision.saved_work_ms, decision.manifest) == (5 * MINUTE, FIRST)
    event = [event for event in cluster.events if event.kind is EventKind.CHECKPOINT][-1]
    assert event.detail == {
        "phase": "RUNNING",
        "work_ms": 5 * MINUTE,
        "manifest": FIRST,
        "step": 7,
        "saved_at_ms": cluster.now_ms,
    }


def test_the_newest_of_several_manifests_counts() -> None:
    cluster = _running()
    _tell(cluster, "r1-1", saved_work_ms=6 * MINUTE, manifest=SECOND_ONE)
    _tell(cluster, "r1-2", saved_work_ms=5 * MINUTE, manifest=FIRST)
    _decide(cluster)
    assert cluster.snapshot.jobs["gang"].decision.manifest == SECOND_ONE


def test_one_acknowledged_manifest_lets_the_whole_gang_end() -> None:
    cluster = _running()
    cluster.snapshot.set_job_intent("gang", replace(cluster.snapshot.jobs["gang"].intent, cancel=True))
    _decide(cluster)
    assert cluster.phase("gang") == "STOPPING"
    _tell(cluster, "r1-1", saved_work_ms=10 * MINUTE, manifest=FIRST, acknowledged=True)
    _decide(cluster, 1)
    stop = cluster.snapshot.jobs["gang"].decision.stop
    assert stop is not None and stop.saved


@pytest.mark.parametrize(
    ("wish", "resumes_from"),
    [pytest.param(OnLoss.RESUME, FIRST, id="resume"), pytest.param(OnLoss.RESTART, "", id="restart")],
)
def test_the_next_attempt_is_told_what_to_resume_from(wish: OnLoss, resumes_from: str) -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8, checkpoint=SAVES, on_node_failure=wish)
    cluster.tick()
    cluster.now_ms += 10 * MINUTE
    _tell(cluster, "r1-1", saved_work_ms=5 * MINUTE, saved_at_ms=cluster.now_ms, manifest=FIRST)
    _decide(cluster)
    assert orders(cluster.snapshot, "r1-1")[0].resume_from == "", "the running attempt began without one"
    lost = GangReport("job", 1, tuple(replace(rank, state=RankState.STOPPED) for rank in _ranks(cluster)))
    cluster.snapshot.set_node_report("r1-1", NodeReport("boot", (lost,)))
    cluster.tick()
    decision = cluster.snapshot.jobs["job"].decision
    assert (decision.phase, decision.attempt, decision.failures) == (Phase.RUNNING, 2, 0)
    assert decision.stop is not None and decision.stop.cause is StopCause.NODE_FAILURE
    assert orders(cluster.snapshot, "r1-1")[0].resume_from == resumes_from


def _ranks(cluster: Cluster):
    return cluster._gang("r1-1", "job").ranks


# --- a rank that fails because another host of its gang is going


def _failing(cluster: Cluster, node: str) -> None:
    ranks = tuple(RankReport(rank.rank, RankState.FAILED, 1) for rank in cluster._gang(node, "gang").ranks)
    _tell(cluster, node, ranks=ranks)


def _confirming() -> Cluster:
    cluster = Cluster("r1: 3xH100", failure_confirm_ms=3_000)
    cluster.submit("gang", 16, checkpoint=SAVES)
    cluster.tick()
    assert cluster.on("gang") == ["r1-1", "r1-2"]
    cluster.deaf.update(("r1-1", "r1-2"))
    return cluster


def _ends(cluster: Cluster) -> tuple[int, StopCause]:
    """The failures that count against the job, and why its attempt ended."""
    decision = cluster.snapshot.jobs["gang"].decision
    assert decision.stop is not None
    return decision.failures, decision.stop.cause


def test_a_rank_that_fails_alone_is_its_jobs_own_fault_after_a_moment() -> None:
    cluster = _confirming()
    _failing(cluster, "r1-1")
    _decide(cluster)
    _decide(cluster, 2.9)
    assert cluster.phase("gang") == "RUNNING"
    assert cluster.plan().wake_ms == cluster.snapshot.jobs["gang"].decision.failing_until_ms
    _decide(cluster, 0.1)
    assert _ends(cluster) == (1, StopCause.RANK_FAILURE)


def test_a_rank_that_fails_beside_ranks_that_are_gone_is_not() -> None:
    cluster = _confirming()
    _failing(cluster, "r1-1")
    _decide(cluster)
    stopped = tuple(replace(rank, state=RankState.STOPPED) for rank in cluster._gang("r1-2", "gang").ranks)
    _tell(cluster, "r1-2", ranks=stopped)
    _decide(cluster, 1)
    assert _ends(cluster) == (0, StopCause.NODE_FAILURE)


def test_a_rank_that_fails_beside_a_host_that_falls_silent_is_not() -> None:
    cluster = _confirming()
    _failing(cluster, "r1-1")
    _decide(cluster)
    cluster.snapshot.set_node_alive("r1-2", False)
    _decide(cluster, 1)
    assert cluster.phase("gang") == "RUNNING"
    _decide(cluster, 2)
    assert _ends(cluster) == (0, StopCause.NODE_FAILURE)


def test_a_rank_that_fails_beside_a_broken_gpu_is_not() -> None:
    cluster = _confirming()
    _failing(cluster, "r1-1")
    _decide(cluster)
    report = cluster.snapshot.node("r1-2").report
    assert report is not None
    cluster.snapshot.set_node_report("r1-2", replace(report, faulty_gpus=(0,)))
    _decide(cluster, 1)
    assert _ends(cluster) == (0, StopCause.NODE_FAILURE)


def test_a_job_on_one_host_has_nobody_else_to_wait_for() -> None:
    cluster = Cluster("r1: 1xH100", failure_confirm_ms=3_000)
    cluster.submit("gang", 8)
    cluster.tick()
    _failing(cluster, "r1-1")
    _decide(cluster)
    assert _ends(cluster) == (1, StopCause.RANK_FAILURE)


def test_a_failure_that_is_taken_back_ends_the_wait() -> None:
    cluster = _confirming()
    _failing(cluster, "r1-1")
    _decide(cluster)
    _tell(cluster, "r1-1", ranks=cluster._gang("r1-1", "gang").ranks)
    _decide(cluster, 1)
    assert cluster.snapshot.jobs["gang"].decision.failing_until_ms == 0
    _decide(cluster, 10)
    assert cluster.phase("gang") == "RUNNING"
