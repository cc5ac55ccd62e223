"""Eight ranks on four agents train for real: preempted, outliving an agent, robbed of a host, and in the end they
have the weights of an undisturbed run."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest

from tests.agents import HostAgent, joining, storage
from tests.system import ROOT, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

BUCKET = "training"
HOSTS = 4
STEPS, SAVE_EVERY = 800, 50
TEAM, URGENT_TEAM = "research-foundation-models", "production-assistants"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    running = System(tmp_path_factory.mktemp("training") / "data", {"GANGWAY_FLEET": "off", "GANGWAY_WORKLOAD": "off"})
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="module")
def agents(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HostAgent]]:
    home, token = tmp_path_factory.mktemp("agents"), joining(system, HOSTS)
    made = [HostAgent.of(system, f"host-{number}", home / f"h{number}", token) for number in range(1, HOSTS + 1)]
    try:
        for agent in made:
            agent.start()
        with system.client("admin") as client:
            until(lambda: _ready(client) == HOSTS, 60, lambda: made[0].log())
        yield made
    finally:
        for agent in made:
            agent.close()


@pytest.fixture(scope="module")
def objects(system: System) -> Any:
    return storage(system, BUCKET)


@dataclass(slots=True)
class Training:
    """One job that trains, seen from outside."""

    client: httpx.Client
    objects: Any
    job: str

    @classmethod
    def submitted(
        cls,
        client: httpx.Client,
        objects: Any,
        name: str,
        step_seconds: float,
        gpus: int = 8,
        steps: int = STEPS,
        save_every: int = SAVE_EVERY,
    ) -> Training:
        body = _job(
            name,
            TEAM,
            [
                *(sys.executable, str(ROOT / "examples" / "train_numpy.py")),
                *("--steps", str(steps), "--save-every", str(save_every), "--step-seconds", str(step_seconds)),
            ],
            checkpoint={"path": f"s3://{BUCKET}/runs/", "interval_minutes": 1},
            env={"OPENBLAS_NUM_THREADS": "1"},
            gpus=gpus,
        )
        return cls(client, objects, _submit(client, body))

    def cancel(self) -> None:
        """End it, whatever it does, and wait for that."""
        self.client.post(f"/api/v1/jobs/{self.job}/cancel")
        until(lambda: self.state() == "CANCELLED", 60, self.story)

    def state(self) -> str:
        return str(self.client.get(f"/api/v1/jobs/{self.job}").json()["state"])

    def events(self, kind: str, attempt: int | None = None) -> list[dict[str, Any]]:
        found = self.client.get(f"/api/v1/jobs/{self.job}/events", params={"limit": 200}).json()
        return [
            event
            for event in found["items"]
            if event["kind"] == kind and (attempt is None or event["attempt"] == attempt)
        ]

    def attempts(self) -> int:
        return max((event["attempt"] for event in self.events("start")), default=0)

    def saved(self, attempt: int) -> list[int]:
        """The steps of the checkpoints that the leader knows of, of one attempt."""
        return [event["detail"]["step"] for event in self.events("checkpoint", attempt)]

    def runs(self, attempt: int) -> bool:
        return self.state() == "RUNNING" and self.attempts() == attempt

    def resumed_from(self, attempt: int) -> str:
        (bound,) = self.events("bind", attempt)
        return str(bound["detail"].get("resume_from", ""))

    def weights(self) -> str:
        """SHA-256 of the weights in the job's last checkpoint, which holds every step."""
        listed = self.objects.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/{self.job}/")["Contents"]
        last = max(one["Key"] for one in listed if one["Key"].endswith("manifest.json"))
        assert json.loads(self._get(last))["step"] == STEPS
        with np.load(io.BytesIO(self._get(last.replace("manifest.json", "weights.npz")))) as found:
            return hashlib.sha256(b"".join(found[name].tobytes() for name in sorted(found))).hexdigest()

    def _get(self, key: str) -> bytes:
        return bytes(self.objects.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def story(self) -> str:
        found = self.client.get(f"/api/v1/jobs/{self.job}/events", params={"limit": 200}).json()["items"]
        return "\n".join(f"{one['attempt']} {one['kind']} {one['detail']}" for one in found)


def test_whatever_happens_to_a_training_it_ends_with_the_weights_of_an_undisturbed_run(
    system: System, agents: list[HostAgent], objects: Any
) -> None:
    with system.client("admin") as client:
        undisturbed = Training.submitted(client, objects, "undisturbed", 0.0)
        until(lambda: undisturbed.state() == "SUCCEEDED", 120, undisturbed.story)
        training = Training.submitted(client, objects, "disturbed", 0.06)
        until(lambda: training.runs(1) and bool(training.saved(1)), 90, training.story)

        an_agent_that_starts_again_goes_on_with_its_ranks(agents[1], training)
        the_portal_and_the_leader_die(system, training)
        a_more_urgent_job_takes_its_place(client, training)
        until(lambda: training.runs(2) and bool(training.saved(2)), 120, training.story)
        a_host_goes_away(agents[2], training)

        until(lambda: training.state() == "SUCCEEDED", 180, training.story)
        assert training.attempts() == 3, training.story()
        assert training.weights() == undisturbed.weights()
        no_step_is_skipped(training)


def an_agent_that_starts_again_goes_on_with_its_ranks(agent: HostAgent, training: Training) -> None:
    before = {process.pid for process in agent.ranks()}
    assert len(before) == 4, "two ranks and their keepers"
    assert agent.stop() == 0
    agent.start()
    saved = len(training.saved(1))
    until(lambda: len(training.saved(1)) > saved, 60, training.story)
    assert {process.pid for process in agent.ranks()} == before
    assert training.runs(1)


def the_portal_and_the_leader_die(system: System, training: Training) -> None:
    """Both are started again by their supervisor; the ranks never hear of it."""
    before = system.children()
    for name in ("web", "worker-scheduler"):
        before[name].kill()
    until(lambda: _started_anew(system, before), 60, lambda: system.output)
    until(lambda: _answers(training.client), 60, lambda: system.output)
    saved = len(training.saved(1))
    until(lambda: len(training.saved(1)) > saved, 60, training.story)
    assert training.runs(1)


def a_more_urgent_job_takes_its_place(client: httpx.Client, training: Training) -> None:
    """It is asked to save, acknowledges, and its ranks end; nothing of its work is lost."""
    urgent = _submit(client, _job("urgent", URGENT_TEAM, ["sleep", "1"], priority="P0"))
    until(lambda: _state(client, urgent) == "SUCCEEDED", 90, training.story)
    (stop,) = training.events("stop", 1)
    assert (stop["detail"]["cause"], stop["detail"]["for"]) == ("preempt", urgent)
    last = training.events("checkpoint", 1)[-1]
    assert last["at"] >= stop["at"], "saved after it was asked to"
    until(lambda: training.attempts() == 2, 60, training.story)
    assert training.resumed_from(2) == last["detail"]["manifest"]


def a_host_goes_away(agent: HostAgent, training: Training) -> None:
    """All of it at once, and it starts again. The gang resumes from its last checkpoint; no failure is the user's."""
    last = training.events("checkpoint", 2)[-1]
    agent.kill_with_its_ranks()
    agent.start()
    until(lambda: training.runs(3), 120, training.story)
    (stop,) = training.events("stop", 2)
    assert stop["detail"]["cause"] == "node_failure"
    assert training.resumed_from(3) >= last["detail"]["manifest"]


def no_step_is_skipped(training: Training) -> None:
    """Each attempt went on where the checkpoint that it began with ends, and none lost more than an interval."""
    for attempt in (2, 3):
        begun = int(training.resumed_from(attempt).rpartition("/")[0].rpartition("-s")[2])
        assert begun in training.saved(attempt - 1)
        assert begun < min(training.saved(attempt)) <= begun + SAVE_EVERY


def _started_anew(system: System, before: dict[str, Any]) -> bool:
    now = system.children()
    return all(name in now and now[name].pid != before[name].pid for name in ("web", "worker-scheduler"))


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def _job(name: str, team: str, command: list[str], gpus: int = 8, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "team": team,
        "image": "unused",
        "command": command,
        "resources": {"gpu_count": gpus, "gpu_type": "H100"},
        "max_runtime_hours": 1,
        **more,
    }


def _submit(client: httpx.Client, body: dict[str, Any]) -> str:
    answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _state(client: httpx.Client, job: str) -> str:
    return str(client.get(f"/api/v1/jobs/{job}").json()["state"])


def _ready(client: httpx.Client) -> int:
    return int(client.get("/api/v1/cluster").json()["hosts"].get("READY", 0))
