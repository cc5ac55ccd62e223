"""How callers prove who they are, and how refusals look."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from knox.models import AuthToken

from tests.portal.api.conftest import Api, problem
from tests.portal.people import PASSWORD


@pytest.fixture(autouse=True)
def fresh_throttle() -> None:
    cache.clear()


@pytest.mark.parametrize("path", ["jobs", "queue", "cluster", "cluster/map", "nodes", "quotas", "auth/tokens"])
def test_who_is_not_signed_in_gets_401(nobody: Api, path: str) -> None:
    response = nobody.get(path)
    problem(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer", "Bearer x", "Bearer a b", "Bearer \xff", "bearer " + "f" * 64])
def test_a_bad_token_gets_401(nobody: Api, header: str) -> None:
    problem(nobody.get("jobs", Authorization=header), 401)


def test_a_name_and_a_password_get_a_token_that_works_until_it_is_revoked(nobody: Api, ada: Api) -> None:
    made = nobody.post("auth/tokens", {"username": "ada", "password": PASSWORD})
    assert made.status_code == 201, made.content
    bearer = f"Bearer {made.json()['token']}"
    listed = nobody.get("auth/tokens", Authorization=bearer).json()["items"]
    assert made.json()["id"] in {token["id"] for token in listed}
    assert made.json()["token"] not in str(listed)
    assert ada.delete(f"auth/tokens/{made.json()['id']}").status_code == 204
    problem(nobody.get("jobs", Authorization=bearer), 401)
    assert ada.get("jobs").status_code == 200


def test_a_token_may_expire(nobody: Api, ada: Api) -> None:
    made = nobody.post("auth/tokens", {"username": "ada", "password": PASSWORD, "expires_hours": 1})
    assert made.json()["expires_at"] > made.json()["created_at"]


@pytest.mark.parametrize(
    "credentials",
    [{"username": "ada", "password": "wrong"}, {"username": "nobody", "password": PASSWORD}],
    ids=["password", "name"],
)
def test_wrong_credentials_are_refused_alike(nobody: Api, ada: Api, credentials: dict[str, str]) -> None:
    found = problem(nobody.post("auth/tokens", credentials), 401)
    assert found["detail"] == "There is no active user with this name and password."


def test_guessing_is_slowed_down(nobody: Api, ada: Api) -> None:
    tries = [nobody.post("auth/tokens", {"username": "ada", "password": "x"}) for _ in range(21)]
    assert {response.status_code for response in tries[:20]} == {401}
    problem(tries[20], 429)
    assert int(tries[20]["Retry-After"]) > 0


def test_tokens_of_others_cannot_be_revoked(ada: Api, eve: Api) -> None:
    theirs = eve.get("auth/tokens").json()["items"][0]["id"]
    problem(ada.delete(f"auth/tokens/{theirs}"), 404)
    problem(ada.delete("auth/tokens/%25"), 404)
    assert AuthToken.objects.count() == 2


def test_a_session_reads_and_needs_a_csrf_token_to_write(ada: Api) -> None:
    client = Client(enforce_csrf_checks=True)
    assert ada.user is not None
    client.force_login(ada.user)
    assert client.get("/api/v1/jobs").status_code == 200
    found = problem(client.post("/api/v1/jobs", {}, content_type="application/json"), 403)
    assert "CSRF" in found["detail"]


@pytest.mark.parametrize("path", ["nothing", "jobs/", "jobs/x/y/z", "", "jobs%00"])
def test_where_there_is_nothing_is_a_problem(ada: Api, path: str) -> None:
    problem(ada.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path"), [("put", "jobs"), ("delete", "jobs"), ("get", "jobs/x/cancel"), ("get", "agent/register")]
)
def test_a_method_that_is_not_there_is_a_problem(ada: Api, method: str, path: str) -> None:
    response = getattr(ada.client, method)(f"/api/v1/{path}", headers=ada.headers)
    problem(response, 405)
    assert response["Allow"]


def test_whatever_is_accepted_json_is_answered(ada: Api) -> None:
    for accept in ("text/html", "application/problem+json", "garbage"):
        assert ada.get("jobs", Accept=accept)["Content-Type"] == "application/json"


def test_a_failure_is_a_problem_that_tells_nothing(ada: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr("portal.api.jobs.collection.selectors.jobs", fail)
    found = problem(ada.get("jobs"), 500)
    assert "hunter2" not in str(found)
