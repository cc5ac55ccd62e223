"""Each provider takes its host back: the training on it has saved before, and goes on elsewhere without a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents import HostAgent, joining, storage
from tests.e2e.metadata import NOTICE_S, Provider, served
from tests.e2e.test_training import BUCKET, Training
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

AFTER_S = 10.0
"""How long after its notice a host's job may take to run again."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    running = System(tmp_path_factory.mktemp("notices") / "data", {"GANGWAY_FLEET": "off", "GANGWAY_WORKLOAD": "off"})
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="module")
def objects(system: System) -> Any:
    return storage(system, BUCKET)


Started = Callable[..., HostAgent]


@pytest.fixture
def start(system: System, tmp_path: Path) -> Iterator[Started]:
    """Starts the agent of a host, and waits until it is there."""
    made: list[HostAgent] = []

    def started(name: str, provider: Provider | None = None) -> HostAgent:
        agent = HostAgent.of(system, name, tmp_path / name, joining(system, 1))
        if provider is not None:
            agent.given["GANGWAY_AGENT_NODE_SPOT"] = provider.name
            agent.more = f'metadata_url = "{provider.url}"'
        made.append(agent)
        agent.start()
        with system.client("admin") as client:
            until(lambda: state_of(client, name) == "READY", 60, agent.log)
        return agent

    yield started
    with system.client("admin") as client:
        for agent in made:
            # Nothing of the next test may begin on a host that is not known to be gone yet.
            client.post(f"/api/v1/nodes/{agent.name}/cordon", json={"reason": "its test is over"})
            agent.close()


def state_of(client: httpx.Client, node: str) -> str:
    answer = client.get(f"/api/v1/nodes/{node}")
    return str(answer.json()["row"]["state"]) if answer.status_code == 200 else ""


def seconds(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


@pytest.mark.parametrize("name", ["aws", "gcp", "azure"])
def test_a_host_that_is_taken_back(system: System, start: Started, objects: Any, name: str) -> None:
    with served(name) as provider, system.client("admin") as client:
        spot = start(f"{name}-spot", provider)
        training = Training.submitted(client, objects, f"on-{name}", 0.05, gpus=2, steps=100_000)
        until(lambda: training.runs(1) and bool(training.saved(1)), 120, lambda: training.story() + spot.log())
        start(f"{name}-spare")

        provider.take_back()
        told_s = time.time()
        until(lambda: training.runs(2), NOTICE_S[name] + AFTER_S, training.story)
        assert provider.gone_at_s is not None
        assert time.time() - told_s < NOTICE_S[name] + AFTER_S

        (stop,) = training.events("stop", 1)
        last = training.events("checkpoint", 1)[-1]
        assert stop["detail"]["cause"] == "spot"
        assert stop["at"] <= last["at"] and seconds(last) < provider.gone_at_s, "saved after it was asked, in time"
        assert training.resumed_from(2) == last["detail"]["manifest"]
        assert state_of(client, spot.name) == "DRAINING"
        if name == "azure":
            an_event_is_acknowledged_after_the_checkpoint(provider, seconds(last), spot)
        training.cancel()


def an_event_is_acknowledged_after_the_checkpoint(provider: Provider, saved_s: float, agent: HostAgent) -> None:
    until(lambda: provider.acknowledged_s is not None, 15, agent.log)
    assert provider.acknowledged_s is not None and provider.acknowledged_s > saved_s
    assert not agent.ranks()


def test_a_host_that_may_be_taken_back_is_left_when_there_is_room(system: System, start: Started, objects: Any) -> None:
    """Advised to, the job saves beside its work and stays; once there is another host it moves, and loses nothing."""
    with served("aws") as provider, system.client("admin") as client:
        spot = start("advised", provider)
        training = Training.submitted(client, objects, "advised", 0.05, gpus=2, steps=100_000, save_every=90_000)
        until(lambda: training.runs(1), 120, lambda: training.story() + spot.log())
        provider.advise()
        until(lambda: bool(training.saved(1)), 60, lambda: training.story() + spot.log())
        assert training.runs(1), "it has not been stopped for it"
        assert state_of(client, spot.name) == "CORDONED"
        start("room")
        until(lambda: training.runs(2), 60, training.story)
        (stop,) = training.events("stop", 1)
        assert stop["detail"]["cause"] == "spot"
        assert training.resumed_from(2) == training.events("checkpoint", 1)[-1]["detail"]["manifest"]
        assert len(training.saved(1)) == 2, "one beside the work, one to leave with"
        training.cancel()


def test_a_gpu_that_falls_off_the_bus_costs_its_job_one_interval_and_its_host_takes_no_more_work(
    system: System, start: Started, objects: Any
) -> None:
    with system.client("admin") as client:
        broken = start("broken")
        training = Training.submitted(client, objects, "on-broken", 0.05, gpus=2, steps=100_000)
        until(lambda: training.runs(1) and bool(training.saved(1)), 120, lambda: training.story() + broken.log())
        start("whole")
        line = "3,77,1000,-;NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.\n"
        broken.kernel_log.write_text(line)
        until(lambda: training.runs(2), 60, lambda: training.story() + broken.log())
        (stop,) = training.events("stop", 1)
        assert stop["detail"]["cause"] == "node_failure"
        assert state_of(client, "broken") == "CORDONED"
        (fault,) = client.get("/api/v1/nodes/broken/health").json()["faults"]
        assert (fault["gpu"], fault["xid"], fault["remedy"], fault["job"]) == (0, 79, "reboot_host", training.job)
        training.cancel()
