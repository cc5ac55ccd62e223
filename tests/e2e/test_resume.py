"""A training whose newest checkpoint is damaged and whose host dies: it goes on from the one before, and says so."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.agents import HostAgent, joining, storage
from tests.system import ROOT, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]
BUCKET, STEPS = "resuming", 300


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    running = System(tmp_path_factory.mktemp("resume") / "data", {"GANGWAY_FLEET": "off", "GANGWAY_WORKLOAD": "off"})
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="module")
def host(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAgent]:
    agent = HostAgent.of(system, "host-1", tmp_path_factory.mktemp("host"), joining(system, 1))
    try:
        agent.start()
        with system.client("admin") as client:
            until(lambda: client.get("/api/v1/cluster").json()["hosts"].get("READY") == 1, 60, agent.log)
        yield agent
    finally:
        agent.close()


@pytest.fixture(scope="module")
def bucket(system: System) -> Any:
    return storage(system, BUCKET)


class Job:
    def __init__(self, client: httpx.Client, step_seconds: float) -> None:
        self._client = client
        train = [sys.executable, str(ROOT / "examples" / "train_numpy.py"), "--steps", str(STEPS)]
        body = {
            "name": "resumes",
            "team": "research-foundation-models",
            "image": "unused",
            "command": [*train, "--save-every", "25", "--step-seconds", str(step_seconds)],
            "resources": {"gpu_count": 2, "gpu_type": "H100"},
            "checkpoint": {"path": f"s3://{BUCKET}/runs/", "interval_minutes": 1, "retain_last_n": 3},
            "env": {"OPENBLAS_NUM_THREADS": "1"},
        }
        answer = client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        self.id = str(answer.json()["id"])

    def state(self) -> str:
        return str(self._client.get(f"/api/v1/jobs/{self.id}").json()["state"])

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self._client.get(f"/api/v1/jobs/{self.id}/events", params={"limit": 200}).json()["items"]
        return [event for event in found if event["kind"] == kind]

    def checkpoints(self, state: str) -> list[dict[str, Any]]:
        found = self._client.get(f"/api/v1/jobs/{self.id}/checkpoints").json()["items"]
        return [one for one in found if one["state"] == state]

    def output(self, attempt: int, rank: int = 0) -> str:
        where = {"attempt": attempt, "rank": rank}
        answer = self._client.get(f"/api/v1/jobs/{self.id}/logs", params=where)
        return str(answer.json()["text"]) if answer.status_code == 200 else ""

    def story(self) -> str:
        found = self._client.get(f"/api/v1/jobs/{self.id}/events", params={"limit": 200}).json()["items"]
        told = "\n".join(f"{one['attempt']} {one['kind']} {one['detail']}" for one in found)
        return f"{told}\n{self._client.get(f'/api/v1/jobs/{self.id}/checkpoints').json()}"


def test_a_damaged_checkpoint_is_passed_over_for_the_last_good_one(
    system: System, host: HostAgent, bucket: Any
) -> None:
    with system.client("admin") as client:
        undisturbed = Job(client, 0.0)
        until(lambda: undisturbed.state() == "SUCCEEDED", 120, undisturbed.story)
        until(lambda: "weights " in undisturbed.output(1), 30, lambda: undisturbed.output(1))

        job = Job(client, 0.05)
        until(lambda: len(job.checkpoints("good")) >= 3, 120, job.story)
        newest, before = _stopped_between_two(host, job, bucket)
        key = newest["manifest"].removeprefix(f"s3://{BUCKET}/").replace("manifest.json", "weights.npz")
        bucket.put_object(Bucket=BUCKET, Key=key, Body=b"damaged")

        assert client.post("/api/v1/nodes/host-1/cordon", json={"reason": "test"}).status_code in (200, 202)
        host.kill_with_its_ranks()
        host.start()
        until(lambda: bool(job.events("torn")), 90, job.story)
        (torn,) = job.events("torn")
        assert (torn["detail"]["manifest"], torn["detail"]["instead"]) == (newest["manifest"], before["manifest"])
        assert "weights.npz" in torn["detail"]["why"]

        assert client.post("/api/v1/nodes/host-1/uncordon").status_code in (200, 202)
        until(lambda: job.state() == "SUCCEEDED", 120, job.story)
        assert [event["detail"].get("resume_from") for event in job.events("bind")] == [None, before["manifest"]]
        until(lambda: "weights " in job.output(2), 30, lambda: job.output(2))
        assert f"resumes from step {before['step']}," in job.output(2)
        assert _weights(job.output(2)) == _weights(undisturbed.output(1)) == _weights(job.output(2, rank=1))
        until(lambda: len(job.checkpoints("good")) == 3 and not job.checkpoints("pruning"), 60, job.story)
        assert job.checkpoints("pruned")
        assert before["resumed_by"] == []
        assert [one["resumed_by"] for one in _all(job) if one["manifest"] == before["manifest"]] == [[2]]
        assert sum(key.endswith("/manifest.json") for key in _keys(bucket, job)) == 3


def _stopped_between_two(host: HostAgent, job: Job, bucket: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Halt the ranks so that nothing new is saved, all that was saved has been looked at, and answer the last two."""
    while True:
        for process in host.ranks():
            process.send_signal(signal.SIGSTOP)
        newest = max(key for key in _keys(bucket, job) if key.endswith("/manifest.json"))
        with suppress(AssertionError):  # halted right between the manifest and the word to the agent: once more
            until(lambda newest=newest: _is_newest(job, newest), 15, job.story)  # type: ignore[misc]
            one, other = job.checkpoints("good")[:2]
            return one, other
        for process in host.ranks():
            process.send_signal(signal.SIGCONT)
        until(lambda newest=newest: max(_keys(bucket, job)) > newest, 30, job.story)  # type: ignore[misc]


def _is_newest(job: Job, key: str) -> bool:
    good = job.checkpoints("good")
    return len(good) > 1 and good[0]["manifest"] == f"s3://{BUCKET}/{key}"


def _keys(bucket: Any, job: Job) -> list[str]:
    return [one["Key"] for one in bucket.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/{job.id}/")["Contents"]]


def _all(job: Job) -> list[dict[str, Any]]:
    return [one for state in ("good", "torn", "pruned", "pruning") for one in job.checkpoints(state)]


def _weights(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("weights "))
