"""``GET jobs``, ``GET jobs/{id}``, what hangs below it, and what may be done to a job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import services
from scheduler.core.types import JobDecision, Phase, Reason, Slice
from scheduler.models import Job, JobEvent
from scheduler.store import keys
from tests.portal.api.conftest import Api, body, problem
from tests.portal.people import NOW, make_user

pytestmark = pytest.mark.usefixtures("fleet")


def submit(api: Api, **changes: Any) -> str:
    response = api.post("jobs", body(**changes))
    assert response.status_code == 201, response.content
    return str(response.json()["id"])


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_a_list_holds_the_jobs_of_ones_teams_newest_first(ada: Api, bob: Api, eve: Api, pager: Api) -> None:
    first, second = submit(ada), submit(bob)
    other = submit(eve, team="speech")
    assert ids(ada.get("jobs")) == ids(bob.get("jobs")) == [second, first]
    assert ids(eve.get("jobs")) == [other]
    assert ids(pager.get("jobs")) == [other, second, first]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param({"priority": "P1"}, ["b"], id="priority"),
        pytest.param({"priority": "P1,P2"}, ["b", "a"], id="several with a comma"),
        pytest.param({"priority": ["P1", "P2"]}, ["b", "a"], id="several times"),
        pytest.param({"gpu_type": "A100"}, ["b"], id="GPU type"),
        pytest.param({"q": "LPH"}, ["a"], id="part of the name"),
        pytest.param({"owner": "ADA@example.com"}, ["b", "a"], id="owner"),
        pytest.param({"owner": "bob@example.com"}, [], id="another owner"),
        pytest.param({"state": "RUNNING"}, [], id="state"),
        pytest.param({"state": "PENDING", "team": "vision"}, ["b", "a"], id="state and team"),
        pytest.param({"team": "speech"}, [], id="a team of others"),
        pytest.param({"since": "2100-01-01"}, [], id="since"),
        pytest.param({"until": "2100-01-01T00:00:00+01:00", "since": "2020-01-01"}, ["b", "a"], id="a span"),
    ],
)
def test_filters(ada: Api, query: dict[str, Any], found: list[str]) -> None:
    names = {submit(ada, name="alpha"): "a", submit(ada, name="beta", priority="P1", gpu_type="A100"): "b"}
    assert [names[job] for job in ids(ada.get("jobs", query))] == found


@pytest.mark.parametrize(
    ("query", "field"),
    [
        pytest.param({"stat": "RUNNING"}, "'stat'", id="an unknown parameter"),
        pytest.param({"state": "running"}, "state", id="an unknown state"),
        pytest.param({"since": "yesterday"}, "since", id="no time"),
        pytest.param({"since": "2026-04-19T12:00:00"}, "since", id="a time without a zone"),
        pytest.param({"since": "2026-13-41T00:00:00Z"}, "since", id="a day that is none"),
        pytest.param({"since": "0001-01-01T00:00:00+14:00"}, "since", id="a time before all time"),
        pytest.param({"limit": "0"}, "limit", id="no rows"),
        pytest.param({"limit": "10000000000000"}, "limit", id="too many rows"),
        pytest.param({"limit": ["1", "2"]}, "limit", id="two limits"),
        pytest.param({"q": "a\0b"}, "q", id="a NUL"),
        pytest.param({"cursor": "x"}, "cursor", id="a cursor of someone's own"),
        pytest.param({"cursor": "WyIyMDI2LTAxLTAxVDAwOjAwOjAwIiwieCJd"}, "cursor", id="a cursor without a zone"),
        pytest.param({"cursor": "\ud800".encode("utf-8", "surrogatepass")}, "cursor", id="bytes as a cursor"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused(ada: Api, query: dict[str, Any], field: str) -> None:
    (error,) = problem(ada.get("jobs", query), 400)["errors"]
    assert error["field"] == field


def make_jobs(user: User, count: int) -> list[str]:
    """Rows in pairs of one moment, oldest first."""
    team = QuotaNode.objects.get(name="vision")
    for number in range(count):
        Job.objects.create(
            id=f"{number:026}",
            name="run",
            team=team,
            owner=user.email,
            submitted_by=user,
            priority=2,
            gpus=8,
            gpu_type="H100",
            hint="any",
            max_runtime_ms=1000,
            spec={},
            core_spec={},
            submitted_at=NOW + timedelta(seconds=number // 2),
            body_hash="",
        )
    return [f"{number:026}" for number in range(count)]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
def test_pages_hold_every_job_once(ada: Api, limit: int) -> None:
    assert ada.user is not None
    made = make_jobs(ada.user, 7)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        response = ada.get("jobs", {"limit": limit, **cursor})
        seen += ids(response)
        if response.json()["next_cursor"] is None:
            break
        cursor = {"cursor": response.json()["next_cursor"]}
    assert seen == made[::-1]


def test_a_list_takes_the_same_queries_however_long(ada: Api, django_assert_num_queries: Any) -> None:
    assert ada.user is not None
    make_jobs(ada.user, 60)
    for limit in (1, 50):
        with django_assert_num_queries(3):  # the token with its user, the memberships, the jobs with their teams
            ada.get("jobs", {"limit": limit})


def test_a_job_shows_what_was_asked_for(ada: Api) -> None:
    job = submit(ada)
    found = ada.get(f"jobs/{job}").json()
    assert (found["id"], found["spec"], found["state"], found["live"]) == (job, body(), "PENDING", False)
    assert (found["allocation"], found["priority"], found["eta"]) == ([], "P2", None)


def test_a_job_that_reached_the_live_state_is_shown_as_it_is_there(ada: Api, show: Callable[..., None]) -> None:
    job = submit(ada)
    show({keys.intent_job(job): services.intent_of(Job.objects.get())})
    found = ada.get(f"jobs/{job}").json()
    assert (found["live"], found["state"], found["queue_position"]) == (True, "PENDING", 1)


def test_why_a_job_waits_is_told_once_the_scheduler_knows_of_it(ada: Api, show: Callable[..., None]) -> None:
    job = submit(ada)
    assert ada.get(f"jobs/{job}/why").json() == {"id": job, "state": "PENDING", "explanation": None}
    reason = JobDecision(reason=Reason.NOT_ENOUGH_FREE_GPUS)
    show({keys.intent_job(job): services.intent_of(Job.objects.get()), keys.decision_job(job): reason})
    told = ada.get(f"jobs/{job}/why").json()["explanation"]
    assert (told["reason"], told["gpus"], told["largest_gang"]) == ("NOT_ENOUGH_FREE_GPUS", 8, 32)
    assert told["words"]


def test_where_a_running_gang_sits_is_shown_in_the_order_of_its_ranks(ada: Api, show: Callable[..., None]) -> None:
    job = submit(ada, gpus=9)
    sits = (Slice("h2", (0,)), Slice("h1", tuple(range(8))))
    running = JobDecision(
        Phase.RUNNING, 1, 1, sits, "H100", bound_ms=1000, started_ms=2000, first_started_ms=2000, lost_ms=1500
    )
    show({keys.intent_job(job): services.intent_of(Job.objects.get()), keys.decision_job(job): running})
    found = ada.get(f"jobs/{job}").json()
    assert (found["state"], found["attempt"], found["lost_work_seconds"]) == ("RUNNING", 1, 1.5)
    assert [(part["node"], part["rack"], len(part["gpus"])) for part in found["allocation"]] == [
        ("h2", "r1", 1),
        ("h1", "r1", 8),
    ]


def test_what_history_knows_is_shown_while_the_live_state_is_away(ada: Api) -> None:
    job = submit(ada)
    Job.objects.update(state="RUNNING", attempt=2, allocation=[{"node": "h1", "gpus": [0, 1]}])
    found = ada.get(f"jobs/{job}").json()
    assert (found["live"], found["state"], found["attempt"], found["restarts"]) == (False, "RUNNING", 2, None)
    assert found["allocation"] == [{"node": "h1", "rack": None, "az": None, "gpus": [0, 1], "unready": None}]


@pytest.mark.parametrize("below", ["", "/events", "/why"])
def test_other_teams_jobs_are_not_there(ada: Api, eve: Api, below: str) -> None:
    problem(eve.get(f"jobs/{submit(ada)}{below}"), 404)


@pytest.mark.parametrize("act", ["cancel", "hold", "release"])
def test_other_teams_jobs_cannot_be_touched(ada: Api, eve: Api, act: str) -> None:
    job = submit(ada)
    problem(eve.post(f"jobs/{job}/{act}"), 404)
    assert not Job.objects.get().cancel


@pytest.mark.parametrize(
    "job",
    ["0" * 26, "x", "%00", "a%0Ab", "0" * 25 + "%C3%A9", "'; --"],
    ids=["unknown", "x", "NUL", "line", "é", "sql"],
)
def test_what_is_no_job_is_not_found(ada: Api, job: str) -> None:
    problem(ada.get(f"jobs/{job}"), 404)


def test_events_come_oldest_first_in_pages(ada: Api) -> None:
    job = submit(ada)
    for number, kind in enumerate(["bind", "start", "end"]):
        JobEvent.objects.create(entry="e", position=number, revision=7, kind=kind, at=NOW, job_id=job, attempt=1)
    first = ada.get(f"jobs/{job}/events", {"limit": 2}).json()
    assert [event["kind"] for event in first["items"]] == ["bind", "start"]
    rest = ada.get(f"jobs/{job}/events", {"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [event["kind"] for event in rest["items"]] == ["end"]
    assert rest["next_cursor"] is None


def test_cancelling_twice_is_cancelling_once(ada: Api) -> None:
    job = submit(ada)
    assert ada.post(f"jobs/{job}/cancel").status_code == 202
    version = Job.objects.get().intent_version
    again = ada.post(f"jobs/{job}/cancel")
    assert (again.status_code, again.json()["cancel_requested"]) == (202, True)
    assert Job.objects.get().intent_version == version == 2


def test_a_job_is_held_and_released(ada: Api) -> None:
    job = submit(ada)
    assert ada.post(f"jobs/{job}/hold").json()["hold"] is True
    assert ada.post(f"jobs/{job}/release").json()["hold"] is False


def test_a_job_that_ended_cannot_be_cancelled(ada: Api) -> None:
    job = submit(ada)
    Job.objects.update(state="SUCCEEDED")
    found = problem(ada.post(f"jobs/{job}/cancel"), 409)
    assert found["type"] == "urn:gangway:problem:already-over"


def test_who_may_cancel(ada: Api, bob: Api, pager: Api) -> None:
    problem(bob.post(f"jobs/{submit(ada)}/cancel"), 403)
    assert bob.post(f"jobs/{submit(ada, owner='bob@example.com')}/cancel").status_code == 202
    assert pager.post(f"jobs/{submit(ada)}/cancel").status_code == 202
    root = Api(make_user("root", "research", admin=True))
    assert root.post(f"jobs/{submit(ada)}/cancel").status_code == 202


def test_who_left_the_team_no_longer_sees_their_job(ada: Api) -> None:
    job = submit(ada)
    assert ada.user is not None
    ada.user.memberships.all().delete()
    problem(ada.get(f"jobs/{job}"), 404)
