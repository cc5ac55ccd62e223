"""`make run` as a person has it: it starts, it can be stopped without a trace, and it goes on where it was."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.system import ROOT, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    tmp_path.chmod(0o755)
    running = System(tmp_path / "data")
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_ends_every_child_and_the_next_run_goes_on(system: System, number: signal.Signals) -> None:
    system.start()
    people = system.people()
    job = _submit(system)
    programs = list(system.children().values())
    assert len(programs) == 9
    assert system.stop(number) == 0
    assert [each for each in programs if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []

    system.start()
    assert system.people() == people, "the second run made people anew"
    with system.client("researcher") as client:
        assert client.get(f"/api/v1/jobs/{job}").json()["name"] == "resnet-imagenet-baseline"
        until(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "RUNNING", 60, lambda: system.output)
    assert system.stop(number) == 0


def test_children_end_with_a_supervisor_that_is_killed_and_the_next_run_starts(system: System) -> None:
    system.start()
    programs = list(system.children().values())
    system.kill()
    _, alive = psutil.wait_procs(programs, timeout=10)
    assert alive == []
    system.start()
    assert system.stop() == 0


def test_demo_json_is_for_its_owner_and_holds_what_signing_in_takes(system: System) -> None:
    system.start()
    assert (system.data / "demo.json").stat().st_mode & 0o777 == 0o600
    people = system.people()
    assert people["url"] == system.url
    assert {person["role"] for person in people["users"]} == {"researcher", "team_admin", "oncall", "admin"}
    assert all(set(person) == {"name", "role", "password", "token"} for person in people["users"])
    assert system.stop() == 0


def _submit(system: System) -> str:
    body = json.loads((ROOT / "examples" / "job.json").read_text())
    with system.client("researcher") as client:
        answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
