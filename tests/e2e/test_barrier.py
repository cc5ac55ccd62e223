"""63 of 64 ranks are ready: none of them trains, and when the time is up all of their GPUs are free again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.core.types import PolicyIntent
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put
from scheduler.store.etcd import EtcdStore
from tests.agents import HostAgent, environ
from tests.e2e.hosts import Hosts
from tests.e2e.training import TEAM, job, state, submit
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def little_patience(bare_system: System) -> Iterator[None]:
    """A start has fifteen seconds, and is tried again after five."""
    store = EtcdStore(environ(bare_system)["GANGWAY_ETCD_URL"])
    chosen = PolicyIntent({"start_timeout_ms": 15_000, "backoff_ms": 5_000})
    store.commit([], [Put(keys.INTENT_POLICY, codec.encode(chosen))])
    yield
    store.commit([], [Delete(keys.INTENT_POLICY)])
    store.close()


@pytest.mark.usefixtures("little_patience")
def test_a_rank_that_is_never_ready_keeps_the_others_from_training_and_their_gpus_for_a_while_only(
    bare_system: System, hosts: Hosts, tmp_path: Path
) -> None:
    whole = hosts.start(*(f"whole-{number}" for number in range(1, 8)), gpus=8)
    whole += hosts.start("all-but-one", gpus=7)
    slow, _ = hosts.start("slow", "spare", gpus=1)
    nothing_can_be_prepared_on(slow)
    begun = tmp_path / "begun"
    begun.mkdir()
    with bare_system.client("admin") as client:
        assert client.post("/api/v1/nodes/spare/cordon", json={"reason": "not yet"}).is_success
        gang = submit(
            client, job("all-or-nothing", TEAM, ["sh", "-c", f"touch {begun}/$RANK"], 64, topology_hint="any")
        )

        def events(kind: str) -> list[dict[str, object]]:
            found = client.get(f"/api/v1/jobs/{gang}/events", params={"limit": 200}).json()["items"]
            return [{**one["detail"], "attempt": one["attempt"]} for one in found if one["kind"] == kind]

        until(lambda: bool(events("bind")), 60)
        until(lambda: all(prepared(agent, gang) for agent in whole), 60)
        until(lambda: bool(events("stop")), 60)
        until(lambda: client.get("/api/v1/cluster").json()["gpus"]["H100"]["used"] == 0, 60)
        stop, release = events("stop")[0], events("release")[0]
        assert stop["cause"] == "start_timeout"
        assert isinstance(stop["unready"], dict) and list(stop["unready"]) == ["slow"]
        assert "Not a directory" in stop["unready"]["slow"]
        assert isinstance(release["gpus"], dict) and sum(len(gpus) for gpus in release["gpus"].values()) == 64
        assert not events("start") and list(begun.iterdir()) == [], "63 were ready, and none has begun"

        assert client.post("/api/v1/nodes/spare/uncordon").is_success
        until(lambda: state(client, gang) == "SUCCEEDED", 120, lambda: str(events("bind")))
        assert len(list(begun.iterdir())) == 64
        last = events("bind")[-1]
        assert isinstance(last["gpus"], dict) and set(last["gpus"]) == {*(agent.name for agent in whole), "spare"}


def nothing_can_be_prepared_on(host: HostAgent) -> None:
    """Where its ranks would work there is no directory any more."""
    scratch = host.home / "scratch"
    scratch.rmdir()
    scratch.write_text("")


def prepared(host: HostAgent, gang: str) -> bool:
    """Whether all is ready there for its ranks of the first attempt."""
    return (host.home / "scratch" / f"{gang}@1").is_dir()
