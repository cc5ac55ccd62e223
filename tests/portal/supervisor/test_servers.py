"""What the stores' programs are made of, where it is more than a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.supervisor.servers import etcd, postgres


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
