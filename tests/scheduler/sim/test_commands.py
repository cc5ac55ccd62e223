"""``manage.py scenario`` and ``manage.py simulate`` as a person or a program meets them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

GOOD = """
title: one job runs
fleet: [{az: az1, rack: r1, hosts: 1, gpu_type: H100, name: n}]
events: [{at: 0s, submit: {job: a, team: ml, gpus: 8}}]
expect: [{at: 1m, job: a, state: RUNNING}]
"""
BAD = GOOD.replace("RUNNING", "PENDING")
NONE = GOOD.replace("gpus: 8", "gpu: 8")
TRACE = """job_id,submit_s,gpus,gpu_type,duration_s,max_runtime_s,team,user,priority
0,5,8,H100,600,3600,a,u,P2
1,6,16,H100,600,3600,b,u,P1
2,7,64,H100,600,3600,b,u,P1
"""
FLEET = "fleet: [{az: az1, rack: r1, hosts: 2, gpu_type: H100, name: n}]\nquota: {a: {}, b: {}}\n"


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*[str(argument) for argument in arguments], stdout=out, stderr=err)
    except SystemExit as left:
        return int(left.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_scenario_that_holds(file: Any):
    status, out, err = run("scenario", file("good.yaml", GOOD))
    assert (status, err) == (0, "")
    assert out.startswith("ok   ")
    assert "one job runs" in out
    assert out.count("\n") == 1


def test_a_scenario_that_does_not_hold(file: Any):
    status, out, _ = run("scenario", file("good.yaml", GOOD), file("bad.yaml", BAD))
    assert status == 1
    assert [line[:4] for line in out.splitlines()] == ["ok  ", "FAIL", "    "]
    assert "got RUNNING" in out


def test_a_file_that_is_no_scenario_is_named_with_its_place(file: Any):
    status, out, err = run("scenario", file("none.yaml", NONE), file("good.yaml", GOOD))
    assert status == 2
    assert err.count("\n") == 1
    assert "none.yaml: events[0].submit: 'gpus' is missing" in err
    assert out.startswith("ok   ")


def test_the_json_result(file: Any):
    status, out, _ = run("scenario", "--json", file("bad.yaml", BAD))
    document = json.loads(out)
    assert status == 1
    assert document["ok"] is False
    (row,) = document["files"]
    assert set(row) == {"file", "title", "ok", "seconds", "failed", "invariants", "jobs"}
    assert row["failed"] == [{"expect": {"at": "1m", "job": "a", "state": "PENDING"}, "got": "RUNNING"}]
    assert row["jobs"]["a"]["attempts"] == 1


def test_the_log_is_a_json_object_a_line(file: Any, tmp_path: Path):
    log = tmp_path / "log.jsonl"
    assert run("scenario", "--log", log, file("good.yaml", GOOD))[0] == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["kind"] for line in lines][:2] == ["fleet", "leader"]
    assert {"submit", "bind", "start"} <= {line["kind"] for line in lines}
    assert all({"t", "kind"} <= line.keys() for line in lines)


def test_a_log_that_cannot_be_written_is_said_so(file: Any, tmp_path: Path):
    with pytest.raises(CommandError, match="cannot write"):
        run("scenario", "--log", tmp_path / "nowhere" / "log.jsonl", file("good.yaml", GOOD))


@pytest.mark.parametrize("policy", ["fifo", "easy", "gangway"])
def test_a_trace_is_simulated_and_its_log_checked(file: Any, tmp_path: Path, policy: str):
    trace, fleet, log = file("trace.csv", TRACE), file("fleet.yaml", FLEET), tmp_path / "log.jsonl"
    arguments = (
        "simulate",
        trace,
        "--fleet",
        fleet,
        "--policy",
        policy,
        "--tick",
        1,
        "--json",
        "--check",
        "--log",
        log,
    )
    status, out, _ = run(*arguments)
    document = json.loads(out)
    assert (status, document["violations"]) == (0, [])
    assert (document["submitted"], document["rejected"], document["started"], document["finished"]) == (2, 1, 2, 2)
    assert document["waits"]["9-64"]["mean"] == pytest.approx(599)
    assert log.read_text().startswith('{"t":0,"kind":"fleet"')


def test_what_is_no_trace_is_said_in_one_line(file: Any):
    with pytest.raises(CommandError, match="no known trace") as refused:
        run("simulate", file("trace.csv", "a,b\n1,2\n"))
    assert refused.value.returncode == 2
