"""A host is cut off from the control plane: for less than its lease nothing is lost, for longer nothing runs twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nodes.liveness import LEASE_S
from scheduler.core.types import PolicyIntent
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put
from scheduler.store.etcd import EtcdStore
from tests.agents import HostAgent, environ
from tests.e2e.hosts import Hosts, state_of
from tests.e2e.training import TEAM, job, submit
from tests.scheduler.store.cable import Cable
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

SHORT_S = LEASE_S / 4
BEATS = "while :; do date +%s%N >> {home}/$GANGWAY_ATTEMPT.$$; sleep 0.05; done"


@pytest.fixture
def soon_given_up(bare_system: System) -> Iterator[None]:
    """A host whose lease is over is given up after a second."""
    store = EtcdStore(environ(bare_system)["GANGWAY_ETCD_URL"])
    store.commit([], [Put(keys.INTENT_POLICY, codec.encode(PolicyIntent({"heartbeat_timeout_ms": 1_000})))])
    yield
    store.commit([], [Delete(keys.INTENT_POLICY)])
    store.close()


class Beating:
    """A job of one rank that notes every twentieth of a second that it lives."""

    def __init__(self, client: httpx.Client, home: Path) -> None:
        home.mkdir()
        self._client, self._home = client, home
        self.id = submit(client, job("beats", TEAM, ["sh", "-c", BEATS.format(home=home)], 1))

    def beats(self, attempt: int) -> list[int]:
        """When an attempt's rank lived, in nanoseconds; it was started once."""
        files = list(self._home.glob(f"{attempt}.*"))
        assert len(files) <= 1
        return [int(line) for file in files for line in file.read_text().splitlines()]

    def events(self, kind: str) -> list[dict[str, object]]:
        found = self._client.get(f"/api/v1/jobs/{self.id}/events", params={"limit": 200}).json()["items"]
        return [one for one in found if one["kind"] == kind]

    def cancel(self) -> None:
        assert self._client.post(f"/api/v1/jobs/{self.id}/cancel").is_success


@pytest.fixture
def cable(bare_system: System) -> Iterator[Cable]:
    """The network between a host and the control plane."""
    laid = Cable(bare_system.port)
    yield laid
    laid.cut()


@pytest.mark.usefixtures("soon_given_up")
def test_a_host_that_is_cut_off(bare_system: System, hosts: Hosts, cable: Cable, tmp_path: Path) -> None:
    (far,) = hosts.start("far", by=cable.url)
    with bare_system.client("admin") as client:
        beating = Beating(client, tmp_path / "beats")
        until(lambda: bool(beating.beats(1)), 60, far.log)
        hosts.start("near")

        cut_for_less_than_its_lease(cable, beating)
        cut_for_longer(cable, beating, far)
        assert max(beating.beats(1)) < min(beating.beats(2)), "the first had ended before the second began"

        cable.mend()
        until(lambda: state_of(client, "far") == "READY", 60, far.log)
        before, told = len(beating.beats(1)), len(beating.beats(2))
        until(lambda: len(beating.beats(2)) > told + 20, 30)
        assert len(beating.beats(1)) == before and len(beating.events("stop")) == 1
        assert not far.ranks()
        beating.cancel()


def cut_for_less_than_its_lease(cable: Cable, beating: Beating) -> None:
    """The rank never hears of it, and nobody takes its GPU from it."""
    cable.cut()
    cut_ns = time.time_ns()
    until(lambda: max(beating.beats(1)) > cut_ns + SHORT_S * 1e9, 60)
    cable.mend()
    mended_ns = time.time_ns()
    until(lambda: max(beating.beats(1)) > mended_ns + 1e9, 60)
    assert not beating.events("stop")


def cut_for_longer(cable: Cable, beating: Beating, far: HostAgent) -> None:
    """It is started elsewhere, and is over here by then: its keeper has ended it by its own clock."""
    cable.cut()
    until(lambda: bool(beating.beats(2)), LEASE_S + 90, far.log)
    (stop,) = beating.events("stop")
    assert isinstance(stop["detail"], dict) and stop["detail"]["cause"] == "node_failure"
