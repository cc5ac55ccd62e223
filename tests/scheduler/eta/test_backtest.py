"""The backtest from the trace to its figures, on a small one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command


def trace(path: Path, jobs: int = 60) -> Path:
    """A job of a host each ten minutes, each running for a quarter of an hour: they wait longer and longer."""
    rows = [f"j{at},{at * 600},8,1,8,900,everyone,ada," for at in range(jobs)]
    path.write_text("\n".join(["job_id,submit_s,gpus,nodes,gpus_per_node,duration_s,tenant,user,status", *rows]))
    return path


def test_what_runs_as_always_is_told_well(tmp_path: Path) -> None:
    out = io.StringIO()
    path = trace(tmp_path / "t.csv")
    call_command("eta", "backtest", str(path), "--moments", "9", "--load", "3", "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert told["hosts"] == 1
    starts = told["starts"]
    assert starts["predictions"] > 20 and starts["known"] > 0
    assert starts["p50_where_limits_tell_s"] < starts["limits_s"] / 3
    assert starts["covered"] > 0.5


@pytest.mark.parametrize("wrong", [["--moments", "0"], ["--rolls", "0"], ["--load", "0"]])
def test_what_cannot_be_is_refused(tmp_path: Path, wrong: list[str]) -> None:
    with pytest.raises(CommandError, match="give"):
        call_command("eta", "backtest", str(trace(tmp_path / "t.csv", 2)), *wrong)
