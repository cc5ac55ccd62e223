"""``POST jobs/preview``: what would become of a job, and that asking changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler import clock
from scheduler.core import types
from scheduler.models import Job, Outbox
from scheduler.store import keys
from scheduler.store.memory import MemoryStore
from tests.portal.api.conftest import Api, body, problem

pytestmark = pytest.mark.usefixtures("fleet")


def running(job: str, team: str, host: str, priority: int = 2) -> dict[str, Any]:
    """A job on all eight GPUs of a host, as the store holds it."""
    now_ms = clock.now_ms()
    spec = types.JobSpec(job, team, 8, "H100", priority, 3_600_000, now_ms - 9000)
    decision = types.JobDecision(
        types.Phase.RUNNING,
        1,
        1,
        (types.Slice(host, tuple(range(8))),),
        "H100",
        bound_ms=now_ms - 9000,
        started_ms=now_ms - 9000,
    )
    return {keys.intent_job(job): types.JobIntent(spec), keys.decision_job(job): decision}


@pytest.fixture
def full(fleet: None, show: Callable[..., None]) -> None:
    """Every H100 is taken by vision: one host by P3, the others by P1."""
    shown: dict[str, Any] = running("low", "vision", "h1", priority=3)
    for host in range(2, 7):
        shown |= running(f"high{host}", "vision", f"h{host}", priority=1)
    show(shown)


def test_a_job_that_fits_starts_now_in_one_rack_and_nothing_is_kept(ada: Api, store: MemoryStore) -> None:
    before = store.read(keys.PREFIX)
    answer = ada.post("jobs/preview", body(gpus=32)).json()
    assert (answer["verdict"], answer["feasible"], answer["reason"]) == ("starts", True, None)
    assert answer["placement"]["racks"] == [{"rack": "r1", "hosts": 4, "gpus": 32}]
    assert (answer["placement"]["link"], answer["placement"]["slowdown"]) == ("rack", 1.0)
    assert answer["quota"]["band"] == "burst"
    assert answer["eta"] is not None
    assert not Job.objects.exists()
    assert not Outbox.objects.exists()
    assert store.read(keys.PREFIX) == before


def test_what_could_never_run_is_told_with_what_could(ada: Api) -> None:
    answer = ada.post("jobs/preview", body(gpus=40)).json()
    assert (answer["verdict"], answer["reason"], answer["feasible"]) == ("refused", "NEVER_FITS", False)
    assert {"resources.gpu_count": 32} in [one["change"] for one in answer["alternatives"]]


@pytest.mark.usefixtures("full")
def test_a_preempting_job_names_its_own_teams_victims(ada: Api) -> None:
    answer = ada.post("jobs/preview", body()).json()
    assert (answer["verdict"], answer["reason"]) == ("waits", "WAITING_FOR_PREEMPTION")
    (victim,) = answer["victims"]
    assert (victim["job"], victim["team"], victim["cause"]) == ("low", "vision", "preempt")
    assert victim["lost_gpu_seconds"] > 0


def test_another_teams_victims_have_no_names(ada: Api, show: Callable[..., None]) -> None:
    for host in range(1, 7):
        show(running(f"theirs{host}", "speech", f"h{host}"))
    answer = ada.post("jobs/preview", body()).json()
    assert [(one["job"], one["team"], one["cause"]) for one in answer["victims"]] == [(None, "speech", "reclaim")]


@pytest.mark.usefixtures("full")
def test_a_waiting_job_is_told_why_and_what_to_ask_for_instead(ada: Api) -> None:
    answer = ada.post("jobs/preview", body(priority="P3")).json()
    assert (answer["verdict"], answer["reason"]) == ("waits", "NOT_ENOUGH_FREE_GPUS")
    changes = [one["change"] for one in answer["alternatives"]]
    assert {"resources.gpu_type": "A100"} in changes
    assert {"priority": "P2"} in changes
    assert {"priority": "P0"} not in changes


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param({"team": "speech"}, 403, id="somebody else's team"),
        pytest.param({"priority": "P0"}, 403, id="no right to P0"),
        pytest.param({"gpus": "8"}, 400, id="no number"),
        pytest.param({"gpu_type": "B999"}, 400, id="no such type"),
        pytest.param({"gpus": 10**9, "command": []}, 400, id="too large and wrong"),
    ],
)
def test_a_body_that_is_no_request_is_a_problem(ada: Api, changes: dict[str, Any], status: int) -> None:
    problem(ada.post("jobs/preview", body(**changes)), status)


def test_a_preview_needs_a_person(nobody: Api) -> None:
    problem(nobody.post("jobs/preview", body()), 401)
