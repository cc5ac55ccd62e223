"""`make run` as a person has it: it starts, it can be stopped without a trace, and it goes on where it was."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.system import PROGRAMS, ROOT, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    tmp_path.chmod(0o755)
    running = System(tmp_path / "data")
    try:
        yield running
    finally:
        running.kill()


def test_a_system_is_stopped_killed_and_goes_on_each_time(system: System) -> None:
    system.start()
    people = system.people()
    demo_json_is_for_its_owner_and_says_how_to_sign_in(system)
    job = _submit(system)
    assert system.stop(signal.SIGTERM) == 0
    nothing_is_left(system)

    system.start()
    assert system.people() == people, "the second run made people anew"
    with system.client("researcher") as client:
        assert client.get(f"/api/v1/jobs/{job}").json()["name"] == "resnet-imagenet-baseline"
        until(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "RUNNING", 60, lambda: system.output)
    programs = set(PROGRAMS.values()) - {"workload"}
    assert set(system.children()) == programs
    system.kill()
    nothing_is_left(system)

    system.start()
    assert system.stop(signal.SIGINT) == 0
    nothing_is_left(system)


def demo_json_is_for_its_owner_and_says_how_to_sign_in(system: System) -> None:
    assert (system.data / "demo.json").stat().st_mode & 0o777 == 0o600
    people = system.people()
    assert people["url"] == system.url
    assert {person["role"] for person in people["users"]} == {"researcher", "team_admin", "oncall", "admin"}
    assert all(set(person) == {"name", "role", "password", "token"} for person in people["users"])


def nothing_is_left(system: System) -> None:
    """Every program of the system has its directory in its environment, whoever its parent is by now."""
    until(lambda: not _left(system), 10, lambda: str(_left(system)))


def _left(system: System) -> list[str]:
    return [
        " ".join(each.info["cmdline"])
        for each in psutil.process_iter(["cmdline", "environ", "status"])
        if (each.info["environ"] or {}).get("GANGWAY_DATA") == str(system.data)
        and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


def _submit(system: System) -> str:
    body = json.loads((ROOT / "examples" / "job.json").read_text())
    with system.client("researcher") as client:
        answer = client.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
