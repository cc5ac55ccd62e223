"""``POST jobs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quotas import services
from scheduler.core import types
from scheduler.models import Job, Outbox
from tests.portal.api.conftest import Api, body, problem
from tests.portal.people import NOW, make_user

EXAMPLE = Path(__file__).parents[4] / "shared" / "examples" / "job.json"

pytestmark = pytest.mark.usefixtures("fleet")


def test_an_accepted_job_is_there_with_its_intent(ada: Api) -> None:
    response = ada.post("jobs", body())
    assert response.status_code == 201, response.content
    answer = response.json()
    job = Job.objects.get(pk=answer["id"])
    assert answer == {
        "id": job.pk,
        "name": "run",
        "team": "vision",
        "state": "PENDING",
        "queue_position": 1,
        "eta": None,
        "array": None,
    }
    assert response["Location"].endswith(f"/api/v1/jobs/{job.pk}")
    assert (job.owner, job.gpus, job.spec) == ("ada@example.com", 8, body())
    assert Outbox.objects.filter(key__endswith=job.pk).exists()


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the shared examples are not beside the repository")
def test_the_example_job_is_taken_from_a_member_of_its_team(show: Any) -> None:
    example = json.loads(EXAMPLE.read_text())
    services.apply(types.QuotaTree((types.QuotaNode(example["team"]),)), at=NOW)
    show({f"/gangway/v1/intent/nodes/x{n}": types.NodeIntent(f"x{n}", "az1", "r1", "H100") for n in range(8)})
    from nodes.models import Node

    for host in range(8):
        Node.objects.create(
            name=f"x{host}",
            az="az1",
            rack="r1",
            gpu_type="H100",
            gpus=8,
            cpus=128,
            memory_gb=2048,
            scratch_gb=8000,
            token_hash="",
        )
    response = Api(make_user("carol", example["team"])).post("jobs", example)
    assert response.status_code == 201, response.content
    assert Job.objects.get().owner == "ada@example.com"


def test_the_same_key_and_meaning_is_the_same_job(ada: Api) -> None:
    first = ada.post("jobs", body(), **{"Idempotency-Key": "k-1"})
    spelt_out = dict(reversed(body(priority="P2").items()))
    again = ada.post("jobs", spelt_out, **{"Idempotency-Key": "k-1"})
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Job.objects.count() == 1


def test_the_same_key_and_another_body_is_a_conflict(ada: Api, bob: Api) -> None:
    ada.post("jobs", body(), **{"Idempotency-Key": "k-1"})
    problem(ada.post("jobs", body(gpus=16), **{"Idempotency-Key": "k-1"}), 409)
    # The owner is part of the request: a teammate's is another one.
    problem(bob.post("jobs", body(), **{"Idempotency-Key": "k-1"}), 409)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "k" * 256, "kä"], ids=["empty", "blank", "gap", "long", "umlaut"])
def test_what_is_no_key_is_refused(ada: Api, key: str) -> None:
    found = problem(ada.post("jobs", body(), **{"Idempotency-Key": key}), 400)
    assert found["errors"][0]["field"] == "Idempotency-Key"


def test_errors_name_field_reason_and_remedy(ada: Api) -> None:
    found = problem(ada.post("jobs", body(gpus=0, priority="P7")), 400)
    assert [(error["field"], bool(error["reason"]), bool(error["remedy"])) for error in found["errors"]] == [
        ("resources.gpu_count", True, True),
        ("priority", True, True),
    ]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("changes", "status", "field", "code"),
    [
        pytest.param({"team": "nobody"}, 400, "team", "invalid", id="an unknown team"),
        pytest.param({"team": "research"}, 400, "team", "invalid", id="a node that is no team"),
        pytest.param({"team": "speech"}, 403, "team", "forbidden", id="a team of others"),
        pytest.param({"priority": "P0"}, 403, "priority", "forbidden", id="P0 without the right"),
        pytest.param({"priority": "P0", "gpus": 0}, 400, "resources.gpu_count", "invalid", id="invalid weighs more"),
        pytest.param({"gpus": 33}, 400, "resources.gpu_count", "NEVER_FITS", id="more than the larger zone holds"),
        pytest.param({"gpus": 10**9}, 400, "resources.gpu_count", "NEVER_FITS", id="a billion"),
        pytest.param({"gpu_type": "V100"}, 400, "resources.gpu_type", "invalid", id="a type that the fleet lacks"),
    ],
)
def test_refusals(ada: Api, changes: dict[str, Any], status: int, field: str, code: str) -> None:
    found = problem(ada.post("jobs", body(**changes)), status)
    assert (field, code) in {(error["field"], error["code"]) for error in found["errors"]}
    assert not Job.objects.exists()


def test_what_no_host_could_hold_is_refused_by_the_live_state(ada: Api) -> None:
    greedy = body()
    greedy["resources"]["memory_per_rank_gb"] = 65_536
    found = problem(ada.post("jobs", greedy), 400)
    assert found["errors"][0]["code"] == "NEVER_FITS"


def test_a_ceiling_is_named_with_its_node(ada: Api) -> None:
    from nodes.models import Node

    for host in range(3):
        Node.objects.create(
            name=f"a{host}", az="az2", rack="r3", gpu_type="A100", gpus=8, cpus=1, memory_gb=1, scratch_gb=1
        )
    found = problem(ada.post("jobs", body(gpus=24, gpu_type="A100")), 400)
    (error,) = found["errors"]
    assert (error["field"], error["code"]) == ("resources.gpu_count", "QUOTA_CEILING")
    assert "research: 16 A100" in error["reason"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(b"", 400, id="no body"),
        pytest.param(b"{", 400, id="half a body"),
        pytest.param(b"[]", 400, id="a list"),
        pytest.param(b"null", 400, id="null"),
        pytest.param(b'{"name": "\\ud800"}', 400, id="a lone surrogate"),
        pytest.param(b'{"name": "\\u0000"}', 400, id="a NUL"),
        pytest.param(b'{"\\u0000": 1}', 400, id="a NUL in a name"),
        pytest.param(b"\xff\xfe", 400, id="no UTF-8"),
        pytest.param(b"[" * 200_000, 400, id="deep nesting"),
        pytest.param(b'{"a": "' + b"x" * 10_000_000 + b'"}', 413, id="10 MB"),
    ],
)
def test_broken_bodies_are_problems(ada: Api, raw: bytes, status: int) -> None:
    response = ada.client.post("/api/v1/jobs", raw, content_type="application/json", headers=ada.headers)
    problem(response, status)


def test_other_media_types_are_refused(ada: Api) -> None:
    problem(ada.client.post("/api/v1/jobs", "a=1", content_type="text/plain", headers=ada.headers), 415)
    problem(ada.client.post("/api/v1/jobs", {"a": 1}, headers=ada.headers), 415)


def test_submission_takes_a_constant_and_small_number_of_queries(ada: Api, django_assert_max_num_queries: Any) -> None:
    for _ in range(5):
        with django_assert_max_num_queries(11):
            assert ada.post("jobs", body()).status_code == 201


def test_a_job_is_taken_while_the_live_state_is_away(ada: Api, picture: Any) -> None:
    picture.stop()
    response = ada.post("jobs", body())
    assert response.status_code == 201
    assert Job.objects.count() == 1


def test_an_array_is_answered_by_its_first_job_and_listed_by_its_id(ada: Api) -> None:
    asked = body(array={"count": 3, "throttle": 2})
    answer = ada.post("jobs", asked, **{"Idempotency-Key": "k"}).json()
    assert (answer["name"], answer["array"]) == ("run[0]", answer["id"])
    assert ada.post("jobs", asked, **{"Idempotency-Key": "k"}).json()["id"] == answer["id"]
    listed = ada.get("jobs", {"array": answer["array"]}).json()["items"]
    assert sorted(one["name"] for one in listed) == ["run[0]", "run[1]", "run[2]"]
    assert {one["array"] for one in listed} == {answer["id"]}
    assert Job.objects.count() == 3
