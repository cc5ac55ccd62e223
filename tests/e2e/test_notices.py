"""Each provider takes its host back: the training on it has saved before, and goes on elsewhere without a person."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents import HostAgent
from tests.e2e.hosts import Hosts, state_of
from tests.e2e.metadata import NOTICE_S, Provider, served
from tests.e2e.training import Training
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

AFTER_S = 10.0
"""How long after its notice a host's job may take to run again."""
STEP_S = 0.05


def training(client: httpx.Client, objects: Any, pace: Path, save_every: int = 50) -> Training:
    """One that ends when it is cancelled."""
    return Training.submitted(client, objects, pace, gpus=2, steps=100_000, save_every=save_every, step_s=STEP_S)


def seconds(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


@pytest.mark.parametrize("name", ["aws", "gcp", "azure"])
def test_a_host_that_is_taken_back(bare_system: System, hosts: Hosts, objects: Any, tmp_path: Path, name: str) -> None:
    with served(name) as provider, bare_system.client("admin") as client:
        (spot,) = hosts.start(f"{name}-spot", provider=provider)
        job = training(client, objects, tmp_path / name)
        until(lambda: job.runs(1) and bool(job.saved(1)), 120, lambda: job.story() + spot.log())
        hosts.start(f"{name}-spare")

        provider.take_back()
        told_s = time.time()
        until(lambda: job.runs(2), NOTICE_S[name] + AFTER_S, job.story)
        assert provider.gone_at_s is not None
        assert time.time() - told_s < NOTICE_S[name] + AFTER_S

        (stop,) = job.events("stop", 1)
        last = job.events("checkpoint", 1)[-1]
        assert stop["detail"]["cause"] == "spot"
        assert stop["at"] <= last["at"] and seconds(last) < provider.gone_at_s, "saved after it was asked, in time"
        assert job.resumed_from(2) == last["detail"]["manifest"]
        assert state_of(client, spot.name) == "DRAINING"
        if name == "azure":
            an_event_is_acknowledged_after_the_checkpoint(provider, seconds(last), spot)
        job.cancel()


def an_event_is_acknowledged_after_the_checkpoint(provider: Provider, saved_s: float, agent: HostAgent) -> None:
    until(lambda: provider.acknowledged_s is not None, 15, agent.log)
    assert provider.acknowledged_s is not None and provider.acknowledged_s > saved_s
    assert not agent.ranks()


def test_a_host_that_may_be_taken_back_is_left_when_there_is_room(
    bare_system: System, hosts: Hosts, objects: Any, tmp_path: Path
) -> None:
    """Advised to, the job saves beside its work and stays; once there is another host it moves, and loses nothing."""
    with served("aws") as provider, bare_system.client("admin") as client:
        (spot,) = hosts.start("advised", provider=provider)
        job = training(client, objects, tmp_path / "advised", save_every=90_000)
        until(lambda: job.runs(1), 120, lambda: job.story() + spot.log())
        provider.advise()
        until(lambda: bool(job.saved(1)), 60, lambda: job.story() + spot.log())
        assert job.runs(1), "it has not been stopped for it"
        assert state_of(client, spot.name) == "CORDONED"
        hosts.start("room")
        until(lambda: job.runs(2), 60, job.story)
        (stop,) = job.events("stop", 1)
        assert stop["detail"]["cause"] == "spot"
        assert job.resumed_from(2) == job.events("checkpoint", 1)[-1]["detail"]["manifest"]
        assert len(job.saved(1)) == 2, "one beside the work, one to leave with"
        job.cancel()


def test_a_gpu_that_falls_off_the_bus_costs_its_job_one_interval_and_its_host_takes_no_more_work(
    bare_system: System, hosts: Hosts, objects: Any, tmp_path: Path
) -> None:
    with bare_system.client("admin") as client:
        (broken,) = hosts.start("broken")
        job = training(client, objects, tmp_path / "broken")
        until(lambda: job.runs(1) and bool(job.saved(1)), 120, lambda: job.story() + broken.log())
        hosts.start("whole")
        line = "3,77,1000,-;NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.\n"
        broken.kernel_log.write_text(line)
        until(lambda: job.runs(2), 60, lambda: job.story() + broken.log())
        (stop,) = job.events("stop", 1)
        assert stop["detail"]["cause"] == "node_failure"
        assert state_of(client, "broken") == "CORDONED"
        (fault,) = client.get("/api/v1/nodes/broken/health").json()["faults"]
        assert (fault["gpu"], fault["xid"], fault["remedy"], fault["job"]) == (0, 79, "reboot_host", job.job)
        job.cancel()
