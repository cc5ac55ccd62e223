"""One child: it starts or says why not, stops when asked, is killed when it will not, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from portal.supervisor.process import CannotStart, Child, Program
from tests.portal.supervisor.conftest import WAITS, python

DEAF = (
    "import signal, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "pathlib.Path({mark!r}).touch(); signal.pause()"
)


def test_a_program_that_is_asked_to_stop_ends_by_its_own_signal(tmp_path: Path) -> None:
    child = Child(python("calm", WAITS), tmp_path / "calm.log")
    child.stop()
    assert child.exit_code() == -signal.SIGTERM


def test_a_program_that_does_not_listen_is_killed_after_its_grace(tmp_path: Path) -> None:
    mark = tmp_path / "deaf"
    program = python("deaf", DEAF.format(mark=str(mark)), ready=mark.exists, stop_within_s=0.2)
    child = Child(program, tmp_path / "deaf.log")
    child.wait_until_ready()
    child.stop()
    assert child.exit_code() == -signal.SIGKILL


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "grandchild"
    code = (
        "import subprocess, sys, pathlib, signal; "
        f"p = subprocess.Popen([sys.executable, '-c', {WAITS!r}]); "
        f"pathlib.Path({str(mark)!r}).write_text(str(p.pid)); signal.pause()"
    )
    child = Child(python("parent", code, ready=lambda: mark.exists() and mark.read_text() != ""), tmp_path / "log")
    child.wait_until_ready()
    child.stop()
    _until(lambda: _gone(int(mark.read_text())))


def test_a_program_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = Child(python("broken", "raise SystemExit('no room in the inn')", ready=lambda: False), tmp_path / "log")
    with pytest.raises(CannotStart, match="broken ended at the start: no room in the inn"):
        child.wait_until_ready()


def test_a_program_that_is_never_ready_is_reported(tmp_path: Path) -> None:
    child = Child(python("slow", WAITS, ready=lambda: False, ready_within_s=0.2), tmp_path / "slow.log")
    with pytest.raises(CannotStart, match="slow is not ready after 0 s"):
        child.wait_until_ready()
    child.kill()


def test_a_program_that_does_not_exist_is_reported_by_name(tmp_path: Path) -> None:
    child = Child(Program(name="absent", argv=("/no/such/program",), ready=lambda: False), tmp_path / "log")
    with pytest.raises(CannotStart, match=r"absent ended at the start: .*/no/such/program"):
        child.wait_until_ready()


def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import pathlib, signal, sys; from portal.supervisor.process import Child, Program; "
        f"c = Child(Program('orphan', (sys.executable, '-c', {WAITS!r})), pathlib.Path({str(tmp_path / 'log')!r})); "
        f"pathlib.Path({str(pid)!r}).write_text(str(c.pid)); signal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    _until(lambda: pid.exists() and pid.read_text() != "")
    parent.kill()
    parent.wait()
    _until(lambda: _gone(int(pid.read_text())))


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _until(condition: Callable[[], bool]) -> None:
    end = monotonic() + 10
    while not condition():
        assert monotonic() < end, "it did not come true within 10 s"
        sleep(0.02)
