"""The example's training: whatever stops happen, the weights at the end are those of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from portal.supervisor.ports import free_port
from tests.examples.conftest import EXAMPLES
from tests.system import until

WORLD = 4
STEPS = 400


class Gang:
    """The ranks of one job, started and stopped as an agent would."""

    def __init__(self, bucket: str, s3_url: str, scratch: Path) -> None:
        self.job = uuid4().hex
        self.attempt = 0
        self._environ = {
            **os.environ,
            "GANGWAY_JOB_ID": self.job,
            "GANGWAY_CHECKPOINT_PATH": f"s3://{bucket}/runs/",
            "GANGWAY_S3_URL": s3_url,
            "WORLD_SIZE": str(WORLD),
            "MASTER_ADDR": "127.0.0.1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._scratch = scratch
        self._ranks: list[subprocess.Popen[bytes]] = []

    def start(self, resume_from: str = "", step_seconds: float = 0.0) -> None:
        self.attempt += 1
        port = str(free_port())
        for rank in range(WORLD):
            run = self._run(rank)
            run.mkdir(parents=True)
            environ = self._environ | {"RANK": str(rank), "MASTER_PORT": port, "GANGWAY_RUN_DIR": str(run)}
            environ |= {"GANGWAY_ATTEMPT": str(self.attempt), "GANGWAY_RESUME_FROM": resume_from}
            argv = [sys.executable, str(EXAMPLES / "train_numpy.py"), "--steps", str(STEPS), "--save-every", "50"]
            argv += ["--step-seconds", str(step_seconds)]
            with (run / "output.log").open("ab") as output:
                self._ranks.append(subprocess.Popen(argv, env=environ, stdout=output, stderr=output))

    def _run(self, rank: int) -> Path:
        return self._scratch / self.job / str(self.attempt) / str(rank)

    def told(self, rank: int = 0) -> dict[str, Any]:
        file = self._run(rank) / "checkpoint.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"step": 0, "manifest": ""}
        return found

    def output(self, rank: int = 0) -> str:
        return (self._run(rank) / "output.log").read_text()

    def signal(self, number: signal.Signals) -> None:
        for rank in self._ranks:
            rank.send_signal(number)

    def kill(self) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.wait()
        self._ranks.clear()

    def finish(self) -> list[str]:
        """The last line of each rank."""
        codes = [rank.wait(60) for rank in self._ranks]
        assert codes == [0] * WORLD, self.output()
        self._ranks.clear()
        return [self.output(rank).splitlines()[-1] for rank in range(WORLD)]


@pytest.fixture
def gangs(bucket: str, s3_url: str, tmp_path: Path) -> Iterator[Any]:
    made: list[Gang] = []

    def make() -> Gang:
        made.append(Gang(bucket, s3_url, tmp_path))
        return made[-1]

    yield make
    for gang in made:
        gang.kill()


def test_stopped_killed_and_torn_it_ends_with_the_same_weights(gangs: Any, s3: Any, bucket: str) -> None:
    undisturbed = gangs()
    undisturbed.start()
    (wanted,) = set(undisturbed.finish())
    assert wanted.startswith("weights ")

    gang = gangs()
    gang.start(step_seconds=0.005)
    until(lambda: gang.told()["step"] >= 50, 60, gang.output)
    before = gang.told()["step"]
    gang.signal(signal.SIGUSR2)
    until(lambda: all(gang.told(rank)["step"] > before for rank in range(WORLD)), 60, gang.output)
    asked = gang.told()
    gang.kill()

    gang.start(asked["manifest"], step_seconds=0.005)
    until(lambda: gang.told()["step"] >= asked["step"] + 50, 60, gang.output)
    assert f"resumes from step {asked['step']}," in gang.output()
    gang.kill()
    torn = gang.told()["manifest"] or asked["manifest"]
    s3.put_object(Bucket=bucket, Key=torn.removeprefix(f"s3://{bucket}/"), Body=b"{")

    gang.start(torn)
    assert set(gang.finish()) == {wanted}
    assert "skipped" in gang.output()
