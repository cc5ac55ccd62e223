"""What the stores' programs are made of, where it is more than a command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.supervisor.process import CannotStart
from portal.supervisor.servers import etcd, postgres
from tests.system import until


def test_etcd_keeps_the_executable_that_began_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, package = tmp_path / "wheel", tmp_path / "package"
    for each in (wheel, package):
        each.touch()
    monkeypatch.setattr(etcd, "binary", lambda: str(wheel))
    assert etcd.same_binary(tmp_path / "note") == str(wheel)
    monkeypatch.setattr(etcd, "binary", lambda: str(package))
    assert etcd.same_binary(tmp_path / "note") == str(wheel)
    wheel.unlink()
    assert etcd.same_binary(tmp_path / "note") == str(package)


def test_the_socket_lies_beside_the_data_unless_its_path_would_be_too_long(tmp_path: Path) -> None:
    assert postgres.socket_dir(Path("/srv/gangway/postgres")) == Path("/srv/gangway/socket")
    elsewhere = postgres.socket_dir(tmp_path / ("long" * 30) / "postgres")
    assert len(str(elsewhere)) <= postgres.LONGEST_SOCKET_DIR
    elsewhere.rmdir()


def test_an_interrupted_initialisation_is_begun_anew(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    data = tmp_path / "postgres"
    (tmp_path / "postgres.unfinished" / "half").mkdir(parents=True)
    user, capabilities = postgres.identity(tmp_path)
    postgres.initialise(data, user, capabilities, durable=False)
    assert (data / "PG_VERSION").exists()
    assert not (data / "half").exists()
    assert not (tmp_path / "postgres.unfinished").exists()


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and that its parent has not asked about."""
    child = subprocess.Popen(["true"])
    until(lambda: "\nState:\tZ" in Path("/proc", str(child.pid), "status").read_text(), 10)
    yield child.pid
    child.wait()


@pytest.mark.parametrize("name", ["postmaster.pid", ".s.PGSQL.5432.lock"])
def test_the_pid_file_of_a_dead_postmaster_that_nobody_reaped_is_removed(
    tmp_path: Path, zombie: int, name: str
) -> None:
    (tmp_path / name).write_text(f"{zombie}\n{tmp_path}\n")
    postgres.forget_dead_postmaster(tmp_path, tmp_path)
    assert not (tmp_path / name).exists()


def test_the_pid_file_of_a_postmaster_that_lives_stays(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n")
    postgres.forget_dead_postmaster(tmp_path, tmp_path)
    assert (tmp_path / "postmaster.pid").exists()


def test_what_a_dead_postmaster_left_running_keeps_the_next_one_out(tmp_path: Path, zombie: int) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{zombie}\n{tmp_path}\n")
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as backend:
        with pytest.raises(CannotStart, match="still work in"):
            postgres.forget_dead_postmaster(tmp_path, tmp_path, within_s=0.1)
        backend.kill()
    assert (tmp_path / "postmaster.pid").exists()
