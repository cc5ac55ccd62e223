"""Whole runs: what befalls a small cluster and what comes of it, told by the log."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.sim.log import Line
from scheduler.sim.log_file import without_chatter
from scheduler.sim.run import Result, run
from scheduler.sim.scenario import read

HOSTS = [{"az": "az1", "rack": "r1", "hosts": 2, "gpu_type": "H100", "name": "n"}]
WHOLE_HOST = {"team": "ml", "gpus": 8, "runtime": "1h", "max_runtime": "2h"}


def play(events: list[Any], expect: list[Any], **more: Any) -> tuple[Result, list[Line]]:
    lines: list[Line] = []
    document = {"title": "t", "fleet": HOSTS, "events": events, "expect": expect, **more}
    with without_chatter():
        return run(read("s.yaml", document), [lines.append]), lines


def holds(result: Result) -> bool:
    assert [(failure.expectation.written, failure.got) for failure in result.failed] == []
    assert result.invariants == ()
    return result.ok


def submit(job: str = "j", at: str = "0s", **changes: Any) -> dict[str, Any]:
    return {"at": at, "submit": {"job": job, **WHOLE_HOST, **changes}}


def kinds(lines: list[Line], job: str) -> list[str]:
    return [line["kind"] for line in lines if line.get("job") == job and line["kind"] != "reason"]


def test_a_job_s_whole_life_in_the_log():
    result, lines = play([submit()], [{"at": "61m", "job": "j", "state": "SUCCEEDED"}])
    assert holds(result)
    assert lines[0]["kind"] == "fleet"
    assert kinds(lines, "j")[:3] == ["submit", "bind", "start"]
    assert kinds(lines, "j")[-2:] == ["end", "release"]
    exits = [line for line in lines if line["kind"] == "exit"]
    assert sorted(line["rank"] for line in exits) == list(range(8))
    assert result.jobs["j"] == {"state": "SUCCEEDED", "attempts": 1, "started": 0.0, "ended": 3600.0, "waited_s": 0.0}


def test_the_same_file_gives_the_same_log():
    events = [submit(), submit("k", "1s", count=3), {"at": "20m", "node_down": "n1"}, {"at": "25m", "node_up": "n1"}]
    first, second = play(events, []), play(events, [])
    assert first[1] == second[1]
    assert first[0] == second[0]


def test_what_does_not_hold_is_told_with_what_was_found():
    result, _ = play([submit()], [{"at": "1m", "job": "j", "state": "PENDING"}, {"stops_total": 3}])
    assert [failure.got for failure in result.failed] == ["RUNNING", "0 stops"]
    assert not result.ok


@pytest.mark.parametrize(
    ("line", "got"),
    [
        pytest.param({"at": "1m", "job": "j", "reason": "FRAGMENTED"}, "RUNNING", id="reason"),
        pytest.param({"at": "1m", "job": "j", "gpus": 4}, "8 GPUs", id="gpus"),
        pytest.param({"at": "1m", "job": "j", "hosts": 2}, "1 hosts", id="hosts"),
        pytest.param({"at": "1m", "job": "j", "racks": 2}, "1 racks", id="racks"),
        pytest.param({"at": "1m", "job": "j", "azs": 2}, "1 AZs", id="azs"),
        pytest.param({"at": "1m", "job": "j", "not_on": ["n1", "n2"]}, "on n1", id="not_on"),
        pytest.param({"at": "2h", "job": "j", "on": ["n1"]}, "SUCCEEDED, on no host", id="on, when it is over"),
        pytest.param({"job": "j", "not_started_before": "1s"}, "started at 0s", id="not_started_before"),
        pytest.param({"job": "j", "ended_by": "1m"}, "ended at 3600s", id="ended_by"),
        pytest.param({"job": "j", "stops": 1}, "0 stops", id="stops"),
        pytest.param({"job": "j", "restarts": 1}, "0 restarts", id="restarts"),
        pytest.param({"job": "j", "stop_cause": "drain"}, "last stopped by None", id="stop_cause"),
        pytest.param({"at": "1m", "job": "j", "eta_at_most": "1m"}, "no expected start; RUNNING", id="eta"),
        pytest.param({"at": "1m", "jobs": ["j"], "running": 0}, "1 running", id="running"),
        pytest.param({"at": "1m", "jobs": ["j"], "running_at_most": 0}, "1 running", id="running_at_most"),
        pytest.param({"at": "1m", "jobs": ["j"], "running_at_least": 2}, "1 running", id="running_at_least"),
        pytest.param({"at": "1m", "jobs": ["j"], "all": "PENDING"}, "j RUNNING", id="all"),
        pytest.param({"at": "1m", "team": "ml", "gpus": 0}, "8 GPUs charged", id="team gpus"),
        pytest.param({"at": "1m", "team": "ml", "gpus_at_most": 7}, "8 GPUs charged", id="gpus_at_most"),
        pytest.param({"at": "1m", "team": "ml", "gpus_at_least": 9}, "8 GPUs charged", id="gpus_at_least"),
        pytest.param({"at": "1m", "host": "n1", "state": "DOWN"}, "READY", id="host"),
        pytest.param({"at": "1m", "idle_gpus": 0}, "8 GPUs idle", id="idle_gpus"),
        pytest.param({"at": "1m", "idle_gpus_at_most": 7}, "8 GPUs idle", id="idle_gpus_at_most"),
        pytest.param({"at": "1m", "largest_gang": 16}, "a gang of 8", id="largest_gang"),
    ],
)
def test_every_expectation_can_fail(line: dict[str, Any], got: str):
    result, _ = play([submit()], [line, {"at": "3h", "stops_at_most": 0}])
    assert [failure.got for failure in result.failed] == [got]


def test_a_hold_keeps_a_waiting_job_back_until_it_is_released():
    events = [submit(gpus=16), submit("k", "1m"), {"at": "2m", "hold": "k"}, {"at": "2h", "release": "k"}]
    expect = [
        {"at": "3m", "job": "k", "reason": "HELD_BY_USER"},
        {"at": "90m", "job": "k", "state": "PENDING"},
        {"at": "121m", "job": "k", "state": "RUNNING"},
    ]
    assert holds(play(events, expect)[0])


def test_a_hung_process_costs_its_host():
    events = [
        submit(hint="require_same_host"),
        {"at": "5m", "stall": {"job": "j", "what": "stop"}},
        {"at": "10m", "cancel": "j"},
        {"at": "1h", "node_up": "n1"},
    ]
    expect = [
        {"at": "12.5m", "job": "j", "state": "STOPPING"},
        {"at": "14m", "host": "n1", "state": "DOWN"},
        {"at": "14m", "job": "j", "state": "CANCELLED"},
        {"at": "14m", "idle_gpus": 8},
        {"at": "61m", "host": "n1", "state": "READY"},
        {"at": "61m", "idle_gpus": 16},
    ]
    assert holds(play(events, expect)[0])


def test_a_late_word_of_a_failure_counts_if_it_is_of_the_attempt_that_runs():
    events = [
        submit(max_restarts=0),
        {"at": "10m", "report": {"job": "j", "attempt": 1, "rank": 3, "state": "FAILED"}},
    ]
    expect = [{"at": "11m", "job": "j", "state": "FAILED"}, {"job": "j", "stop_cause": "rank_failure"}]
    assert holds(play(events, expect)[0])


def test_what_is_submitted_while_the_store_is_away_is_delivered_after_it():
    events = [{"at": "1m", "store_down": {"for": "5m"}}, submit(at="2m"), {"at": "3m", "leader_crash": {"down": "5s"}}]
    expect = [
        {"at": "4m", "job": "j", "state": "PENDING"},
        {"at": "361s", "job": "j", "state": "RUNNING"},
        {"job": "j", "not_started_before": "6m"},
    ]
    result, lines = play(events, expect)
    assert holds(result)
    fences = [line["fence"] for line in lines if line["kind"] == "leader"]
    assert len(fences) == 2
    assert fences == sorted(fences)


def test_a_job_after_one_that_was_rejected_is_cancelled():
    events = [submit("big", gpus=99), submit("next", "1s", after=["big"])]
    expect = [{"at": "1m", "job": "big", "reason": "NEVER_FITS"}, {"at": "1m", "job": "next", "state": "CANCELLED"}]
    assert holds(play(events, expect)[0])


def test_a_job_after_one_that_is_long_over_starts_at_once():
    events = [submit(runtime="1m"), submit("next", "1h", after=["j"])]
    assert holds(play(events, [{"at": "3601s", "job": "next", "state": "RUNNING"}])[0])


def test_dates_count_from_the_start_of_the_file():
    result, lines = play([submit(at="1m")], [{"job": "j", "started_by": "1m"}], start="2026-03-29T00:00:00Z")
    assert holds(result)
    assert [line["t"] for line in lines if line["kind"] == "start"] == [60]


def test_a_run_that_never_settles_ends_at_the_last_moment_that_the_file_names():
    events = [submit(max_restarts=2), {"at": "0s", "stall": {"job": "j", "what": "start"}}]
    result, lines = play(events, [{"at": "10h", "job": "j", "state": ["PENDING", "STARTING", "FAILED"]}])
    assert holds(result)
    assert lines[-1]["t"] <= 36_000


def test_a_job_that_was_promised_nothing_is_expected_where_the_plan_leads():
    """One-GPU jobs get no promises: the fifteenth on one GPU follows fourteen limits of 20m."""
    one_gpu = [{"az": "az1", "rack": "r1", "hosts": 1, "gpus": 1, "gpu_type": "H100", "name": "n"}]
    queue = submit("a", gpus=1, count=15, runtime="10m", max_runtime="20m")
    expect = [
        {"at": "1m", "job": "a[1]", "eta_at_most": "20m"},
        {"at": "1m", "job": "a[14]", "eta_at_least": "275m"},
        {"at": "1m", "job": "a[14]", "eta_at_most": "285m"},
    ]
    result, _ = play([queue], expect, fleet=one_gpu)
    assert holds(result)
