"""A training whose newest checkpoint is damaged and whose host dies: it goes on from the one before, and says so."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents import HostAgent
from tests.e2e.hosts import Hosts
from tests.e2e.training import BUCKET, Training
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]
STEPS, SAVE_EVERY, STEP_S = 300, 15, 0.15


def training(client: httpx.Client, objects: Any, pace: Path, step_s: float) -> Training:
    return Training.submitted(client, objects, pace, gpus=2, steps=STEPS, save_every=SAVE_EVERY, step_s=step_s)


def test_a_damaged_checkpoint_is_passed_over_for_the_last_good_one(
    bare_system: System, hosts: Hosts, objects: Any, tmp_path: Path
) -> None:
    (host,) = hosts.start("resumes")
    with bare_system.client("admin") as client:
        job = training(client, objects, tmp_path / "damaged", STEP_S)
        until(lambda: len(job.checkpoints("good")) >= 3, 120, job.story)
        newest, before = _stopped_between_two(host, job)
        key = newest["manifest"].removeprefix(f"s3://{BUCKET}/").replace("manifest.json", "weights.npz")
        objects.put_object(Bucket=BUCKET, Key=key, Body=b"damaged")

        assert client.post("/api/v1/nodes/resumes/cordon", json={"reason": "test"}).status_code in (200, 202)
        host.kill_with_its_ranks()
        host.start()
        until(lambda: bool(job.events("torn")), 90, job.story)
        (torn,) = job.events("torn")
        assert (torn["detail"]["manifest"], torn["detail"]["instead"]) == (newest["manifest"], before["manifest"])
        assert "weights.npz" in torn["detail"]["why"]

        job.hurry()
        assert client.post("/api/v1/nodes/resumes/uncordon").status_code in (200, 202)
        until(lambda: job.state() == "SUCCEEDED", 120, job.story)
        assert [event["detail"].get("resume_from") for event in job.events("bind")] == [None, before["manifest"]]
        until(lambda: "weights " in job.output(2), 30, lambda: job.output(2))
        assert f"resumes from step {before['step']}," in job.output(2)
        until(lambda: len(job.checkpoints("good")) == 3 and not job.checkpoints("pruning"), 60, job.story)
        assert job.checkpoints("pruned")
        assert before["resumed_by"] == []
        everything = job.checkpoints("good", "torn", "pruned", "pruning")
        assert [one["resumed_by"] for one in everything if one["manifest"] == before["manifest"]] == [[2]]
        assert _kept(job, everything) == sorted(one["manifest"] for one in job.checkpoints("good"))
        it_has_the_weights_of_one_that_nobody_disturbed(training(client, objects, tmp_path / "undisturbed", 0.0), job)


def it_has_the_weights_of_one_that_nobody_disturbed(undisturbed: Training, job: Training) -> None:
    until(lambda: undisturbed.state() == "SUCCEEDED", 120, undisturbed.story)
    until(lambda: "weights " in undisturbed.output(1), 30, lambda: undisturbed.output(1))
    assert _weights(job.output(2)) == _weights(undisturbed.output(1)) == _weights(job.output(2, rank=1))


def _stopped_between_two(host: HostAgent, job: Training) -> tuple[dict[str, Any], dict[str, Any]]:
    """Halt the ranks so that nothing new is saved, all that was saved has been looked at, and answer the last two."""
    while True:
        for process in host.ranks():
            process.send_signal(signal.SIGSTOP)
        newest = max(key for key in job.stored() if key.endswith("/manifest.json"))
        with suppress(AssertionError):  # halted right between the manifest and the word to the agent: once more
            until(lambda newest=newest: _is_newest(job, newest), 15, job.story)  # type: ignore[misc]
            one, other = job.checkpoints("good")[:2]
            return one, other
        for process in host.ranks():
            process.send_signal(signal.SIGCONT)
        until(lambda newest=newest: max(job.stored()) > newest, 30, job.story)  # type: ignore[misc]


def _kept(job: Training, rows: list[dict[str, Any]]) -> list[str]:
    """The manifests in the storage; but what was written too fast to be reported is not looked for so soon."""
    stored = {f"s3://{BUCKET}/{key}" for key in job.stored()}
    return sorted(one["manifest"] for one in rows if one["manifest"] in stored)


def _is_newest(job: Training, key: str) -> bool:
    good = job.checkpoints("good")
    return len(good) > 1 and good[0]["manifest"] == f"s3://{BUCKET}/{key}"


def _weights(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("weights "))
