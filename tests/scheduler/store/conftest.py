"""The stores that keep the contract: the one in memory and a real etcd."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from aetcd import rpc

from portal.supervisor.servers.etcd import EtcdServer
from scheduler.store.etcd import EtcdStore
from scheduler.store.memory import MemoryStore
from tests.scheduler.store.seam import Seam, VirtualClock, answered, real_sleep


@pytest.fixture(scope="session")
def own_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """An etcd of these tests alone: they kill it."""
    server = EtcdServer(tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["memory", "etcd"])
def seam(request: pytest.FixtureRequest) -> Iterator[Seam]:
    prefix = f"/contract/{os.urandom(6).hex()}/"
    made = _memory(prefix) if request.param == "memory" else _etcd(prefix, request.getfixturevalue("own_etcd"))
    yield made
    made.recovery()
    for watch in made.watches:
        watch.close()
    made.store.close()


def _memory(prefix: str) -> Seam:
    clock = VirtualClock()
    store = MemoryStore(clock)
    return Seam(store, prefix, clock.sleep, store.compact, store.fail, store.recover)


PATIENT_S, SHORT_S = 30.0, 2.0
"""What a call may take: a disk under load may need many seconds for a flush; an etcd that is gone has nothing to do."""


def _etcd(prefix: str, server: EtcdServer) -> Seam:
    store = EtcdStore(server.url, PATIENT_S)

    def outage() -> None:
        server.kill()
        store._channel.timeout_s = SHORT_S

    def recovery() -> None:
        server.start()
        store._channel.timeout_s = PATIENT_S
        answered(lambda: store.get(prefix))

    return Seam(store, prefix, real_sleep, lambda revision: compact(store, revision), outage, recovery)


def compact(store: EtcdStore, revision: int) -> None:
    request = rpc.CompactionRequest(revision=revision, physical=True)
    store._channel.read(lambda member, timeout, metadata: member.kv.Compact(request, timeout, metadata=metadata))
