"""A job that trains on real hosts, seen from outside."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.system import ROOT, until

BUCKET = "training"
TEAM, URGENT_TEAM = "research-foundation-models", "production-assistants"


@dataclass(slots=True)
class Training:
    """``objects`` is a client of the storage in which it saves; ``pace`` the file that says how long a step takes."""

    client: httpx.Client
    objects: Any
    pace: Path
    job: str

    @classmethod
    def submitted(
        cls, client: httpx.Client, objects: Any, pace: Path, *, gpus: int, steps: int, save_every: int, step_s: float
    ) -> Training:
        set_pace(pace, step_s)
        body = job(
            pace.name,
            TEAM,
            [
                *(sys.executable, str(ROOT / "tests" / "e2e" / "paced.py"), str(pace)),
                *("--steps", str(steps), "--save-every", str(save_every)),
            ],
            gpus,
            checkpoint={"path": f"s3://{BUCKET}/runs/", "interval_minutes": 1, "retain_last_n": 3},
            env={"OPENBLAS_NUM_THREADS": "1"},
        )
        return cls(client, objects, pace, submit(client, body))

    def hurry(self) -> None:
        """The steps that are left take no longer than they must."""
        set_pace(self.pace, 0.0)

    def cancel(self) -> None:
        """End it, whatever it does, and wait for that."""
        self.client.post(f"/api/v1/jobs/{self.job}/cancel")
        until(lambda: self.state() == "CANCELLED", 60, self.story)

    def state(self) -> str:
        return state(self.client, self.job)

    def events(self, kind: str, attempt: int | None = None) -> list[dict[str, Any]]:
        return [
            event
            for event in self._told()
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

    def checkpoints(self, *states: str) -> list[dict[str, Any]]:
        found = self.client.get(f"/api/v1/jobs/{self.job}/checkpoints").json()["items"]
        return [one for one in found if one["state"] in states]

    def output(self, attempt: int, rank: int = 0) -> str:
        where = {"attempt": attempt, "rank": rank}
        answer = self.client.get(f"/api/v1/jobs/{self.job}/logs", params=where)
        return str(answer.json()["text"]) if answer.status_code == 200 else ""

    def stored(self) -> list[str]:
        """Its objects in the storage."""
        listed = self.objects.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/{self.job}/")
        return [one["Key"] for one in listed["Contents"]]

    def weights(self, steps: int) -> str:
        """SHA-256 of the weights in the job's last checkpoint, which holds so many steps."""
        last = max(key for key in self.stored() if key.endswith("manifest.json"))
        assert json.loads(self._get(last))["step"] == steps
        with np.load(io.BytesIO(self._get(last.replace("manifest.json", "weights.npz")))) as found:
            return hashlib.sha256(b"".join(found[name].tobytes() for name in sorted(found))).hexdigest()

    def story(self) -> str:
        told = "\n".join(f"{one['attempt']} {one['kind']} {one['detail']}" for one in self._told())
        return f"{told}\n{self.client.get(f'/api/v1/jobs/{self.job}/checkpoints').json()}"

    def _told(self) -> list[dict[str, Any]]:
        found = self.client.get(f"/api/v1/jobs/{self.job}/events", params={"limit": 200}).json()
        return list(found["items"])

    def _get(self, key: str) -> bytes:
        return bytes(self.objects.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def set_pace(file: Path, step_s: float) -> None:
    """In one step: the ranks read it all the time."""
    beside = file.with_suffix(".new")
    beside.write_text(str(step_s))
    beside.replace(file)


def job(name: str, team: str, command: list[str], gpus: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "team": team,
        "image": "unused",
        "command": command,
        "resources": {"gpu_count": gpus, "gpu_type": "H100"},
        "max_runtime_hours": 1,
        **more,
    }


def submit(client: httpx.Client, body: dict[str, Any]) -> str:
    answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def state(client: httpx.Client, job: str) -> str:
    return str(client.get(f"/api/v1/jobs/{job}").json()["state"])
