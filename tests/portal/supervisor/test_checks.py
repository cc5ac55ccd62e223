"""Each thing that keeps Gangway from starting is one clear line."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.supervisor import checks, config
from portal.supervisor.checks import Unfit
from portal.supervisor.lock import only_one
from portal.supervisor.ports import free_port


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_an_old_python_is_refused() -> None:
    with pytest.raises(Unfit, match=r"needs Python 3\.11 or later; this is 3\.10"):
        checks.python_version((3, 10))
    checks.python_version((3, 11))


def test_a_taken_port_is_refused(taken: int) -> None:
    with pytest.raises(Unfit, match=f"port {taken} on 127.0.0.1 is taken.*GANGWAY_PORT"):
        checks.port(taken)


def test_a_full_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match="has 12 MB left, Gangway needs 1024"):
        checks.directory(tmp_path, free_bytes=lambda path: 12 * 1024**2)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Unfit, match=r"cannot write in .*/data: File exists"):
        checks.directory(tmp_path / "data")


@pytest.mark.skipif(not Path("/proc/sys/kernel").is_dir(), reason="needs Linux's /proc")
def test_a_directory_that_takes_no_files_is_refused() -> None:
    with pytest.raises(Unfit, match="cannot write in /proc/sys/kernel"):
        checks.directory(Path("/proc/sys/kernel"))


@pytest.mark.parametrize(
    ("check", "url", "variable"),
    [
        pytest.param(
            checks.postgres, "postgresql://u:secret@127.0.0.1:{port}/x", "GANGWAY_POSTGRES_URL", id="postgres"
        ),
        pytest.param(checks.etcd, "http://127.0.0.1:{port}", "GANGWAY_ETCD_URL", id="etcd"),
        pytest.param(checks.redis_server, "redis://:secret@127.0.0.1:{port}/0", "GANGWAY_REDIS_URL", id="redis"),
        pytest.param(checks.redis_server, "no-scheme-{port}", "GANGWAY_REDIS_URL", id="redis by no URL"),
        pytest.param(checks.object_storage, "http://127.0.0.1:{port}", "GANGWAY_S3_URL", id="s3"),
        pytest.param(checks.object_storage, "nowhere-{port}", "GANGWAY_S3_URL", id="s3 by no URL"),
    ],
)
def test_a_store_that_does_not_answer_is_named_without_its_password(check: object, url: str, variable: str) -> None:
    with pytest.raises(Unfit) as refused:
        check(url.format(port=free_port()))  # type: ignore[operator]
    line = str(refused.value)
    assert variable in line
    assert "secret" not in line
    assert "\n" not in line


def test_one_of_several_etcd_endpoints_is_enough(taken: int) -> None:
    checks.etcd(f"http://127.0.0.1:{free_port()},http://127.0.0.1:{taken}")


def test_a_second_run_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with (
        only_one(tmp_path),
        pytest.raises(Unfit, match=f"runs already in .* \\(process {os.getpid()}\\).*GANGWAY_DATA"),
        only_one(tmp_path),
    ):
        raise AssertionError("two runs hold the same directory")
    with only_one(tmp_path):
        pass


def test_a_pid_file_that_a_killed_run_left_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "up.pid").write_text("12345")
    with only_one(tmp_path):
        assert (tmp_path / "up.pid").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"GANGWAY_PORT": "http"}, "GANGWAY_PORT is 'http': give a port from 1 to 65535"),
        ({"GANGWAY_PORT": "70000"}, "GANGWAY_PORT is '70000'"),
        ({"GANGWAY_FLEET": "huge"}, "GANGWAY_FLEET is 'huge': give one of small, full, off"),
        ({"GANGWAY_WORKLOAD": "maybe"}, "GANGWAY_WORKLOAD is 'maybe': give one of on, off"),
    ],
)
def test_a_variable_that_cannot_be_is_refused(environ: dict[str, str], line: str) -> None:
    with pytest.raises(Unfit, match=line):
        config.read(environ)
