"""``PATCH jobs/{id}``: priority, time limit, name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler import clock
from scheduler.core import types
from scheduler.models import Job, Outbox
from scheduler.store import codec, keys
from tests.portal.api.conftest import Api, body, problem
from tests.portal.people import make_user

pytestmark = pytest.mark.usefixtures("fleet")


@pytest.fixture
def job(ada: Api) -> Job:
    return Job.objects.get(pk=ada.post("jobs", body()).json()["id"])


@pytest.fixture
def running(job: Job, show: Callable[..., None]) -> Job:
    now_ms = clock.now_ms()
    slices = (types.Slice("h1", tuple(range(8))),)
    decision = types.JobDecision(types.Phase.RUNNING, 1, 1, slices, "H100", bound_ms=now_ms, started_ms=now_ms)
    spec = codec.decode(types.JobIntent, bytes(Outbox.objects.get(key=keys.intent_job(job.pk)).value))
    show({keys.intent_job(job.pk): spec, keys.decision_job(job.pk): decision})
    return job


def patch(who: Api, job: Job, changes: dict[str, Any]) -> Any:
    path = f"/api/v1/jobs/{job.pk}"
    return who.client.patch(path, changes, content_type="application/json", headers=who.headers)


def test_what_is_changed_reaches_row_body_and_intent(ada: Api, job: Job) -> None:
    answer = patch(ada, job, {"priority": "P1", "max_runtime_hours": 2, "name": "again"})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert (found["priority"], found["max_runtime_hours"], found["name"]) == ("P1", 2, "again")
    job.refresh_from_db()
    assert (job.spec["priority"], job.spec["max_runtime_hours"], job.spec["name"]) == ("P1", 2, "again")
    newest = Outbox.objects.filter(key=keys.intent_job(job.pk)).order_by("-version").first()
    assert newest is not None
    intent = codec.decode(types.JobIntent, bytes(newest.value))
    assert (intent.version, intent.spec.priority, intent.spec.max_runtime_ms) == (2, 1, 7_200_000)


def test_what_is_left_out_stays(ada: Api, job: Job) -> None:
    assert patch(ada, job, {"name": "other"}).json()["priority"] == "P2"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"priority": 1}, id="no class"),
        pytest.param({"max_runtime_hours": 0}, id="no time"),
        pytest.param({"name": ""}, id="no name"),
        pytest.param({"gpu_count": 4}, id="not to be changed"),
    ],
)
def test_what_cannot_be_is_a_problem(ada: Api, job: Job, changes: dict[str, Any]) -> None:
    problem(patch(ada, job, changes), 400)


def test_p0_needs_the_right(ada: Api, job: Job) -> None:
    problem(patch(ada, job, {"priority": "P0"}), 403)


def test_others_may_not(ada: Api, bob: Api, eve: Api, job: Job) -> None:
    problem(patch(bob, job, {"priority": "P3"}), 403)
    problem(patch(eve, job, {"priority": "P3"}), 404)


def test_a_running_job_gets_more_time_from_an_admin_alone(ada: Api, pager: Api, running: Job) -> None:
    problem(patch(ada, running, {"max_runtime_hours": 48}), 403)
    assert patch(ada, running, {"max_runtime_hours": 12}).status_code == 200
    boss = Api(make_user("root", "research", admin=True))
    assert patch(boss, running, {"max_runtime_hours": 48}).status_code == 200
    assert patch(pager, running, {"max_runtime_hours": 72}).status_code == 200


def test_what_is_over_stays_as_it_was(ada: Api, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED")
    problem(patch(ada, job, {"name": "late"}), 409)
