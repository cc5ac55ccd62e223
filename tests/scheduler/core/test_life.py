"""A job's life: the barrier, the handshake of a stop, failures, limits, and what becomes of late reports."""

from __future__ import annotations

import pytest

from scheduler.core.lifecycle import MOVES, may_move
from scheduler.core.types import (
    TERMINAL,
    EventKind,
    GangReport,
    JobIntent,
    NodeReport,
    OnLoss,
    Phase,
    RankReport,
    RankState,
    Window,
)
from tests.builders import HOUR, MINUTE, Cluster, spec


def test_no_rank_runs_before_every_rank_is_ready() -> None:
    cluster = Cluster("r1: 2xH100")
    cluster.deaf.add("r1-2")
    cluster.submit("gang", 16)
    cluster.tick()
    assert cluster.phase("gang") == "STARTING"
    cluster.deaf.clear()
    cluster.tick(5)
    assert cluster.phase("gang") == "RUNNING"


def test_a_start_that_takes_too_long_frees_the_gang_and_avoids_the_host() -> None:
    cluster = Cluster("r1: 3xH100", start_timeout_ms=5 * MINUTE)
    cluster.deaf.add("r1-2")
    cluster.submit("gang", 16)
    cluster.tick()
    cluster.tick(300)
    decision = cluster.snapshot.jobs["gang"].decision
    assert (decision.phase, decision.avoid) == (Phase.PENDING, ("r1-2",))
    assert cluster.reason("gang") == "BACKOFF"
    cluster.tick(60)
    assert cluster.on("gang") == ["r1-1", "r1-3"]


def test_a_start_that_takes_too_long_tells_what_its_hosts_said_was_in_the_way() -> None:
    cluster = Cluster("r1: 3xH100", start_timeout_ms=MINUTE)
    cluster.deaf = {"r1-1", "r1-2"}
    cluster.submit("gang", 24)
    cluster.tick()
    hindered = GangReport("gang", 1, (RankReport(0, RankState.PREPARING),), hindrance="no space left")
    cluster.snapshot.set_node_report("r1-1", NodeReport("boot", (hindered,)))
    cluster.tick(60)
    (stop,) = (event for event in cluster.events if event.kind is EventKind.STOP)
    assert stop.detail["unready"] == {"r1-1": "no space left", "r1-2": ""}


def test_one_failing_rank_ends_the_attempt_and_uses_up_a_restart() -> None:
    cluster = Cluster("r1: 1xH100", quarantine_after=100)
    cluster.submit("job", 8, max_restarts=1)
    cluster.tick()
    cluster.end("job", code=1)
    cluster.tick(10)
    assert cluster.reason("job") == "BACKOFF"
    cluster.tick(60)
    assert cluster.phase("job") == "RUNNING"
    cluster.end("job", code=1)
    cluster.tick(10)
    assert cluster.phase("job") == "FAILED"
    assert cluster.held() == 0


@pytest.mark.parametrize(
    ("wish", "phase"),
    [
        pytest.param(OnLoss.RESUME, "RUNNING", id="resumes"),
        pytest.param(OnLoss.RESTART, "RUNNING", id="restarts"),
        pytest.param(OnLoss.FAIL, "FAILED", id="fails"),
    ],
)
def test_a_lost_host_frees_its_gang_whole(wish: OnLoss, phase: str) -> None:
    cluster = Cluster("r1: 3xH100")
    cluster.submit("gang", 16, on_node_failure=wish, max_restarts=0)
    cluster.tick()
    lost = cluster.on("gang")[0]
    cluster.snapshot.set_node_alive(lost, False)
    cluster.tick(1)
    assert cluster.phase("gang") == "RUNNING", "a short silence is none"
    cluster.tick(31)
    assert cluster.phase("gang") == phase
    assert lost not in cluster.on("gang")


def test_ranks_that_a_fresh_report_no_longer_lists_are_lost() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8)
    cluster.tick()
    cluster.snapshot.set_node_report("r1-1", NodeReport("another boot"))
    cluster.tick(1)
    assert cluster.snapshot.jobs["job"].decision.attempt == 2


def test_a_cancelled_job_saves_and_ends_and_never_comes_back() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8)
    cluster.tick()
    job = spec("job", 8)
    cluster.snapshot.set_job_intent("job", JobIntent(job, 2, cancel=True))
    cluster.tick(60)
    kinds = [event.kind for event in cluster.events if event.job == "job"]
    assert kinds[-4:] == [EventKind.STOP, EventKind.CHECKPOINT, EventKind.END, EventKind.RELEASE]
    cluster.snapshot.set_job_intent("job", JobIntent(job, 3))
    cluster.tick(1)
    assert cluster.phase("job") == "CANCELLED"


def test_a_job_that_cannot_checkpoint_keeps_its_gpus_for_the_whole_grace() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("victim", 8, checkpoint=None)
    cluster.tick()
    cluster.submit("urgent", 8, priority=0)
    cluster.tick(1)
    assert cluster.phase("victim") == "STOPPING"
    assert cluster.reason("urgent") == "WAITING_FOR_PREEMPTION"
    cluster.tick(119)
    assert cluster.phase("victim") == "STOPPING"
    cluster.tick(1)
    assert (cluster.phase("victim"), cluster.phase("urgent")) == ("PENDING", "RUNNING")


def test_a_host_whose_ranks_do_not_end_is_fenced() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8, checkpoint=None)
    cluster.tick()
    cluster.deaf.add("r1-1")
    cluster.snapshot.set_job_intent("job", JobIntent(spec("job", 8, checkpoint=None), 2, cancel=True))
    cluster.tick(1)
    cluster.tick(120)
    assert cluster.phase("job") == "STOPPING"
    cluster.tick(60)
    assert cluster.phase("job") == "CANCELLED"
    assert cluster.snapshot.nodes["r1-1"].state(cluster.now_ms).value == "DOWN"


def test_a_time_limit_counts_useful_work_over_all_attempts() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8, max_runtime_ms=HOUR)
    cluster.tick()
    cluster.tick(3599)
    assert cluster.phase("job") == "RUNNING"
    cluster.tick(1)
    decision = cluster.snapshot.jobs["job"].decision
    assert decision.phase is Phase.FAILED
    assert decision.stop is not None and decision.stop.cause.value == "time_limit"


def test_a_report_of_an_old_attempt_changes_nothing() -> None:
    cluster = Cluster("r1: 1xH100x1")
    cluster.submit("job", 1)
    cluster.tick()
    cluster.end("job")
    cluster.tick(1)
    cluster.submit("next", 1)
    cluster.tick(1)
    node = cluster.snapshot.nodes["r1-1"]
    assert node.report is not None
    late = GangReport("job", 1, (RankReport(0, RankState.FAILED, 1),))
    cluster.snapshot.set_node_report("r1-1", NodeReport("boot", (*node.report.gangs, late)))
    made = cluster.plan()
    assert made.changes == ()
    assert cluster.phase("job") == "SUCCEEDED"


def test_three_different_jobs_that_fail_on_a_host_set_it_aside_for_a_day() -> None:
    cluster = Cluster("r1: 1xH100")
    for name in "abc":
        cluster.submit(name, 8, max_restarts=0)
        cluster.tick(1)
        cluster.end(name, code=1)
        cluster.tick(1)
    assert cluster.snapshot.nodes["r1-1"].state(cluster.now_ms).value == "QUARANTINED"
    cluster.submit("d", 8)
    cluster.tick(1)
    assert cluster.phase("d") == "PENDING"
    cluster.tick(86_400)
    assert cluster.phase("d") == "RUNNING"


def test_a_job_does_not_cross_a_maintenance_window() -> None:
    cluster = Cluster("r1: 1xH100")
    intent = cluster.snapshot.nodes["r1-1"].intent
    assert intent is not None
    object.__setattr__(intent, "maintenance", (Window(2 * HOUR, 4 * HOUR),))
    cluster.snapshot.set_node_intent("r1-1", intent)
    cluster.submit("long", 8, max_runtime_ms=3 * HOUR)
    cluster.tick()
    assert cluster.reason("long") == "MAINTENANCE"
    cluster.tick(4 * 3600)
    assert cluster.phase("long") == "RUNNING"


def test_a_job_waits_for_those_it_comes_after_and_falls_with_them() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("good", 1)
    cluster.submit("bad", 1, max_restarts=0)
    cluster.submit("after good", 1, after=("good",))
    cluster.submit("after both", 1, after=("good", "bad"))
    cluster.tick()
    assert cluster.reason("after good") == "DEPENDENCY"
    cluster.end("good")
    cluster.tick(1)
    assert cluster.phase("after good") == "RUNNING"
    cluster.end("bad", code=1)
    cluster.tick(1)
    assert cluster.phase("after both") == "CANCELLED"


def test_the_table_of_moves_lets_nothing_out_of_a_terminal_phase() -> None:
    assert not [move for move in MOVES if move[0] in TERMINAL]
    assert not may_move(Phase.PENDING, Phase.RUNNING)


def test_a_host_that_registered_and_was_never_heard_is_no_loss() -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.snapshot.set_node_alive("r1-1", False)
    cluster.snapshot.set_node_report("r1-1", None)
    cluster.submit("job", 8)
    cluster.tick(120)
    assert cluster.phase("job") == "PENDING"
    assert not [event for event in cluster.events if event.kind is EventKind.HOST]
