"""etcd as `make run` starts it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from portal.supervisor.ports import free_port
from portal.supervisor.process import CannotStart, Child
from portal.supervisor.servers import etcd
from scheduler.store.base import Put
from scheduler.store.etcd import EtcdStore


def test_the_next_run_goes_on_with_the_data_on_other_ports(tmp_path: Path) -> None:
    for run in range(2):
        port = free_port()
        child = Child(etcd.program(tmp_path / "data", port), tmp_path / "log")
        try:
            child.wait_until_ready()
            store = EtcdStore(etcd.url(port))
            assert len(store.read("/run/").entries) == run
            assert store.commit([], [Put(f"/run/{run}", b"")]).ok
            store.close()
        finally:
            child.stop()


def test_a_server_that_was_killed_comes_back_with_what_was_committed(tmp_path: Path) -> None:
    server = etcd.EtcdServer(tmp_path)
    server.start()
    try:
        store = EtcdStore(server.url)
        assert store.commit([], [Put("/a", b"1")]).ok
        server.restart()
        entry = store.get("/a")
        assert entry is not None and entry.value == b"1"
        store.close()
    finally:
        server.stop()


def test_a_taken_port_is_said_in_one_line_and_nothing_is_left_running(tmp_path: Path) -> None:
    server = etcd.EtcdServer(tmp_path)
    with (
        socket.create_server(("127.0.0.1", server.port)),
        pytest.raises(CannotStart, match="address already in use") as told,
    ):
        server.start()
    assert "\n" not in str(told.value)
    server.start()
    server.stop()


def test_nobody_there_is_no_answer() -> None:
    assert etcd.answers(free_port()) is False
