"""SIGKILL of web, of the deciding worker and of etcd under load: no 201 is forgotten, no GPU is owned twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
import pytest

from portal.demo.tree import EXAMPLE_TEAM
from scheduler.core.types import HOLDING, JobDecision
from scheduler.store import codec, keys
from scheduler.store.etcd import EtcdStore
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

SIZES = (1, 2, 4, 8)
JOBS_BETWEEN_KILLS = 12


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    running = System(tmp_path_factory.mktemp("kill") / "data")
    try:
        running.start()
        yield running
    finally:
        running.kill()


@dataclass(slots=True)
class Client:
    """Submits without pause. A job counts as accepted once its 201 was read; a submission whose answer was lost is
    repeated with its key until it has one, as a careful client does."""

    system: System
    name: str
    accepted: dict[str, str] = field(default_factory=dict)
    lost_answers: int = 0
    refused: list[str] = field(default_factory=list)

    @contextmanager
    def submitting(self) -> Iterator[None]:
        enough = threading.Event()
        thread = threading.Thread(target=self._submit_until, args=(enough,))
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def more(self, count: int) -> None:
        """Wait until so many further jobs were accepted."""
        wanted = len(self.accepted) + count
        until(lambda: len(self.accepted) >= wanted or bool(self.refused), 90, lambda: f"{len(self.accepted)} accepted")

    def _submit_until(self, enough: threading.Event) -> None:
        number = 0
        with self.system.client("researcher") as client:
            while not enough.is_set():
                self._submit(client, f"{self.name}-{number}", number)
                number += 1
                enough.wait(0.05)

    def _submit(self, client: httpx.Client, key: str, number: int) -> None:
        pause = threading.Event()
        while key not in self.accepted:
            try:
                answer = client.post("/api/v1/jobs", json=_job(number), headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                self.lost_answers += 1
                pause.wait(0.1)
                continue
            if answer.status_code in (200, 201):
                self.accepted[key] = answer.json()["id"]
            elif answer.status_code < 500:
                self.refused.append(answer.text)
                return
            else:
                self.lost_answers += 1
                pause.wait(0.1)


@pytest.mark.parametrize("victim", ["web", "worker-scheduler", "etcd"])
def test_what_was_accepted_survives_a_kill(system: System, victim: str) -> None:
    client = Client(system, victim)
    store = EtcdStore(_environ(system)["GANGWAY_ETCD_URL"])
    with client.submitting():
        for _ in range(2):
            client.more(JOBS_BETWEEN_KILLS)
            _kill_and_wait(system, victim)
            client.more(JOBS_BETWEEN_KILLS)
            no_gpu_is_owned_twice(_decisions(store))
    assert not client.refused
    store.close()
    every_accepted_job_is_there_once_and_has_run(system, client)


def no_gpu_is_owned_twice(decisions: dict[str, JobDecision]) -> None:
    owners = Counter(
        (part.node, gpu)
        for decision in decisions.values()
        if decision.phase in HOLDING
        for part in decision.allocation
        for gpu in part.gpus
    )
    assert [gpu for gpu, count in owners.items() if count > 1] == []


def every_accepted_job_is_there_once_and_has_run(system: System, client: Client) -> None:
    """In PostgreSQL one row a key, in the history one bind an attempt, and each job reaches its end."""
    with psycopg.connect(_environ(system)["GANGWAY_POSTGRES_URL"], autocommit=True) as database:
        kept = database.execute(
            "SELECT idempotency_key, id FROM scheduler_job WHERE idempotency_key LIKE %s", [f"{client.name}-%"]
        ).fetchall()
        assert sorted(kept) == sorted(client.accepted.items())
        until(lambda: _states(database, client) == {"SUCCEEDED"}, 90, lambda: str(_states(database, client)))
        twice = database.execute(
            "SELECT job_id, attempt FROM scheduler_jobevent WHERE kind = 'bind' "
            "GROUP BY job_id, attempt HAVING count(*) > 1"
        ).fetchall()
        assert twice == []


def _states(database: psycopg.Connection[Any], client: Client) -> set[str]:
    wanted = list(client.accepted.values())
    rows = database.execute("SELECT DISTINCT state FROM scheduler_job WHERE id = ANY(%s)", [wanted]).fetchall()
    return {state for (state,) in rows}


def _decisions(store: EtcdStore) -> dict[str, JobDecision]:
    """All of them at one revision."""
    page = store.read(keys.DECISION_JOBS)
    return {
        entry.key.removeprefix(keys.DECISION_JOBS): codec.decode(JobDecision, entry.value) for entry in page.entries
    }


def _kill_and_wait(system: System, victim: str) -> None:
    before = system.children()[victim]
    before.kill()
    until(lambda: _restarted(system, victim, before.pid), 30, lambda: system.output)


def _restarted(system: System, victim: str, pid: int) -> bool:
    now = system.children().get(victim)
    return now is not None and now.pid != pid


def _environ(system: System) -> dict[str, str]:
    return dict(system.children()["fleet"].environ())


def _job(number: int) -> dict[str, Any]:
    return {
        "name": f"kill-test-{number}",
        "team": EXAMPLE_TEAM,
        "image": "registry.example.com/test:1",
        "command": ["python", "train.py"],
        "resources": {"gpu_count": SIZES[number % len(SIZES)], "gpu_type": "H100"},
        "max_runtime_hours": 1,
        "env": {"GANGWAY_SIM_RUNTIME_S": "4"},
    }
