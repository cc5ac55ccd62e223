"""SIGKILL of web, of the deciding worker and of etcd under load: no 201 is forgotten, no GPU is owned twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    tmp_path.chmod(0o755)
    running = System(tmp_path / "data")
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
                self._submit(client, f"kill-test-{number}", number)
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
    client = Client(system)
    store = EtcdStore(_environ(system)["GANGWAY_ETCD_URL"])
    with client.submitting():
        for _ in range(2):
            client.more(JOBS_BETWEEN_KILLS)
            _kill_and_wait(system, victim)
            client.more(JOBS_BETWEEN_KILLS)
            no_gpu_is_owned_twice(_decisions(store))
    assert not client.refused
    until(lambda: _all_bound(store, client), 90, lambda: f"{len(_decisions(store))} of {len(client.accepted)} decided")
    no_gpu_is_owned_twice(_decisions(store))
    every_accepted_job_is_there_once(system, client)
    store.close()


def no_gpu_is_owned_twice(decisions: dict[str, JobDecision]) -> None:
    owners = Counter(
        (part.node, gpu)
        for decision in decisions.values()
        if decision.phase in HOLDING
        for part in decision.allocation
        for gpu in part.gpus
    )
    assert [gpu for gpu, count in owners.items() if count > 1] == []


def every_accepted_job_is_there_once(system: System, client: Client) -> None:
    """In PostgreSQL one row a key, in the history one bind an attempt."""
    with psycopg.connect(_environ(system)["GANGWAY_POSTGRES_URL"]) as database:
        rows = database.execute("SELECT idempotency_key, id FROM scheduler_job").fetchall()
        assert sorted(rows) == sorted(client.accepted.items())
        until(lambda: _binds(database) >= set(client.accepted.values()), 30, lambda: "binds are not recorded")
        twice = database.execute(
            "SELECT job_id, attempt FROM scheduler_jobevent WHERE kind = 'bind' "
            "GROUP BY job_id, attempt HAVING count(*) > 1"
        ).fetchall()
        assert twice == []


def _binds(database: psycopg.Connection[Any]) -> set[str]:
    with database.transaction():
        rows = database.execute("SELECT DISTINCT job_id FROM scheduler_jobevent WHERE kind = 'bind'").fetchall()
    return {job for (job,) in rows}


def _all_bound(store: EtcdStore, client: Client) -> bool:
    decisions = _decisions(store)
    return all(job in decisions and decisions[job].phase in HOLDING for job in client.accepted.values())


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
        "max_runtime_hours": 10,
    }
