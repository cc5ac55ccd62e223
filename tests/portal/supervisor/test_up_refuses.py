"""`manage.py up` where it cannot run: one line on standard error, a status that is not 0, nothing left running."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from portal.supervisor.lock import only_one
from portal.supervisor.ports import free_port
from tests.system import ROOT, environment


def refused(data: Path, **chosen: str) -> str:
    """The one line that it says."""
    done = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=ROOT,
        env=environment(data, **{"GANGWAY_PORT": str(free_port()), **chosen}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert not done.stdout
    [line] = done.stderr.splitlines()
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(data) in " ".join(each.info["cmdline"] or ())]
    return line


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert refused(tmp_path / "data", GANGWAY_PORT=str(port)).startswith(
            f"gangway: port {port} on 127.0.0.1 is taken"
        )


@pytest.mark.parametrize("store", ["POSTGRES", "ETCD", "REDIS", "S3"])
def test_a_store_named_by_url_that_does_not_answer(tmp_path: Path, store: str) -> None:
    scheme = {"POSTGRES": "postgresql", "REDIS": "redis"}.get(store, "http")
    line = refused(tmp_path / "data", **{f"GANGWAY_{store}_URL": f"{scheme}://127.0.0.1:{free_port()}/x"})
    assert "does not answer" in line
    assert f"GANGWAY_{store}_URL" in line


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot write in" in refused(tmp_path / "file" / "data")


def test_a_directory_that_another_run_holds(tmp_path: Path) -> None:
    with only_one(tmp_path):
        assert "runs already in" in refused(tmp_path)
