"""`quotas` over the REST interface: who may edit what, the optimistic lock, previews, times and history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from quotas import selectors
from quotas.models import ScheduledEdit
from scheduler import clock
from scheduler.core.types import JobDecision, JobIntent, JobSpec, Phase, QuotaTree, Slice
from scheduler.store import codec, keys
from scheduler.store.memory import MemoryStore
from tests.portal.api.conftest import Api, problem
from tests.portal.people import make_user

pytestmark = pytest.mark.usefixtures("fleet")


@pytest.fixture(autouse=True)
def live(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.connections.store", lambda: store)
    monkeypatch.setattr("scheduler.wakeups.tick.ring", lambda: True)


@pytest.fixture
def root(tree: None) -> Api:
    """An admin of research."""
    return Api(make_user("root", "research", admin=True))


@pytest.fixture
def admin(tree: None) -> Api:
    return Api(make_user("admin", is_superuser=True))


def read(api: Api) -> tuple[dict[str, dict[str, Any]], str]:
    """The nodes by name, and the tag."""
    answer = api.get("quotas")
    return {node["name"]: node for node in answer.json()["nodes"]}, answer["ETag"]


def put(api: Api, nodes: dict[str, dict[str, Any]], tag: str | None, **more: Any) -> Any:
    body = {"nodes": list(nodes.values()), "reason": "a deadline", **more}
    headers = {**api.headers, **({"If-Match": tag} if tag is not None else {})}
    return api.client.put("/api/v1/quotas", json.dumps(body), content_type="application/json", headers=headers)


def test_an_admin_of_a_node_edits_below_it(root: Api) -> None:
    nodes, tag = read(root)
    nodes["vision"] |= {"share": "2.5", "ceiling": {"H100": 16}}
    answer = put(root, nodes, tag)
    assert (answer.status_code, answer["ETag"]) == (200, '"2"'), answer.content
    assert {node["name"]: node["share"] for node in answer.json()["nodes"]}["vision"] == "2.5"
    (newest, first) = root.get("quotas/history").json()["items"]
    assert (newest["by"], newest["reason"], newest["added"]) == ("root", "a deadline", [])
    assert newest["changes"] == [
        {"node": "vision", "field": "share", "before": "1", "after": "2.5"},
        {"node": "vision", "field": "ceiling.H100", "before": None, "after": 16},
    ]
    assert (first["reason"], sorted(first["added"])) == (
        "first tree",
        ["ads", "production", "research", "speech", "vision"],
    )


def test_what_was_applied_is_on_its_way_to_the_store(
    root: Api, store: MemoryStore, django_capture_on_commit_callbacks: Any
) -> None:
    nodes, tag = read(root)
    nodes["vision"]["share"] = "3"
    with django_capture_on_commit_callbacks(execute=True):
        assert put(root, nodes, tag).status_code == 200
    entry = store.get(keys.INTENT_QUOTA)
    assert entry is not None
    assert codec.decode(QuotaTree, entry.value) == selectors.tree()


@pytest.mark.parametrize(
    ("node", "fields", "path"),
    [
        pytest.param("research", {"share": "9"}, "nodes[2].share", id="its own share among its siblings"),
        pytest.param("research", {"ceiling": {}}, "nodes[2].ceiling.A100", id="its own ceiling"),
        pytest.param("ads", {"share": "9"}, "nodes[1].share", id="a team of others"),
    ],
)
def test_and_nothing_else(root: Api, node: str, fields: dict[str, Any], path: str) -> None:
    nodes, tag = read(root)
    nodes[node] |= fields
    found = problem(put(root, nodes, tag), 403)
    assert [error["field"] for error in found["errors"]] == [path]
    assert selectors.version() == 1


def test_members_and_on_call_edit_nothing_and_administrators_everything(ada: Api, pager: Api, admin: Api) -> None:
    nodes, tag = read(ada)
    nodes["vision"]["share"] = "2"
    problem(put(ada, nodes, tag), 403)
    problem(put(pager, nodes, tag), 403)
    nodes["research"]["share"] = "5"
    nodes["new"] = {"name": "new"}
    assert put(admin, nodes, tag).status_code == 200


def test_an_edit_of_a_tree_that_has_changed_since_is_refused(root: Api) -> None:
    nodes, tag = read(root)
    nodes["vision"]["share"] = "2"
    assert put(root, nodes, tag).status_code == 200
    nodes["vision"]["share"] = "3"
    answer = put(root, nodes, tag)
    assert "version 2" in problem(answer, 412)["detail"]
    assert answer["ETag"] == '"2"'
    problem(put(root, nodes, "*"), 412)
    problem(put(root, nodes, None), 428)


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        pytest.param({"share": "-1"}, "nodes[4].share", "decimal", id="a negative share"),
        pytest.param({"share": 1}, "nodes[4].share", "string", id="a share that is no text"),
        pytest.param({"floor": {"H200": 1}}, "nodes[4].floor.H200", "no GPU type H200", id="an unknown type"),
        pytest.param({"floor": {"H100": -1}}, "nodes[4].floor.H100", "outside", id="a negative floor"),
        pytest.param({"floor": {"H100": 2}, "ceiling": {"H100": 1}}, "nodes[4].floor.H100", "above", id="above it"),
        pytest.param({"parent": "nowhere"}, "nodes[4].parent", "no node nowhere", id="an unknown parent"),
        pytest.param({"parent": "vision"}, "nodes[4].parent", "is it itself", id="its own parent"),
        pytest.param({"class_caps": {"P9": 1}}, "nodes[4].class_caps.P9", "P0, P1", id="an unknown class"),
        pytest.param({"colour": "red"}, "nodes[4].colour", "no field", id="an unknown field"),
    ],
)
def test_what_is_no_tree_is_refused_by_its_place(admin: Api, fields: dict[str, Any], path: str, words: str) -> None:
    nodes, tag = read(admin)
    nodes["vision"] |= fields
    errors = problem(put(admin, nodes, tag), 400)["errors"]
    assert path in [error["field"] for error in errors]
    assert any(words in error["reason"] for error in errors)


def test_a_reason_is_required(admin: Api) -> None:
    nodes, tag = read(admin)
    assert problem(put(admin, nodes, tag, reason=""), 400)["errors"][0]["field"] == "reason"


def test_an_override_shows_until_it_is_called_off(root: Api, ada: Api) -> None:
    nodes, tag = read(root)
    nodes["vision"]["ceiling"] = {"H100": 16}
    until = (clock.to_datetime(clock.now_ms()) + timedelta(hours=2)).isoformat()
    answer = put(root, nodes, tag, until=until)
    assert answer.status_code == 200, answer.content
    (edit,) = answer.json()["edits"]
    assert (edit["state"], edit["by"], answer["ETag"]) == ("in_force", "root", '"2"')
    assert edit["changes"] == [{"node": "vision", "field": "ceiling.H100", "before": None, "after": 16}]
    problem(ada.post(f"quotas/edits/{edit['id']}/cancel"), 403)
    answer = root.post(f"quotas/edits/{edit['id']}/cancel")
    assert (answer.json()["edits"], answer["ETag"]) == ([], '"3"')
    assert {node["name"]: node["ceiling"] for node in answer.json()["nodes"]}["vision"] == {}
    problem(root.post(f"quotas/edits/{edit['id']}/cancel"), 409)
    problem(root.post("quotas/edits/999999/cancel"), 404)


def test_an_edit_for_later_changes_nothing_yet(root: Api) -> None:
    nodes, tag = read(root)
    nodes["vision"]["share"] = "7"
    at = (clock.to_datetime(clock.now_ms()) + timedelta(days=1)).isoformat()
    answer = put(root, nodes, tag, at=at)
    assert (answer["ETag"], answer.json()["edits"][0]["state"]) == ('"1"', "waiting")
    later = (clock.to_datetime(clock.now_ms()) + timedelta(days=2)).isoformat()
    assert "sets share of vision" in problem(put(root, nodes, tag, until=later), 409)["detail"]
    problem(put(root, nodes, tag, at="2020-01-01"), 409)
    assert ScheduledEdit.objects.count() == 1


@pytest.fixture
def busy(show: Callable[..., None]) -> dict[str, JobSpec]:
    """Speech holds all hosts of H100, vision waits for one."""
    now = clock.now_ms()

    def job(number: int, team: str) -> JobSpec:
        return JobSpec(f"{number:026}", team, 8, "H100", 2, 7_200_000, now - 1000 * (100 - number), name=f"j{number}")

    records: dict[str, Any] = {}
    specs = {}
    for number in range(1, 7):
        spec = specs[f"speech{number}"] = job(number, "speech")
        slices = (Slice(f"h{number}", tuple(range(8))),)
        records[keys.intent_job(spec.id)] = JobIntent(spec)
        records[keys.decision_job(spec.id)] = JobDecision(
            Phase.RUNNING, 1, 1, slices, "H100", bound_ms=now - 60_000, started_ms=now - 60_000
        )
    specs["vision"] = job(7, "vision")
    records[keys.intent_job(specs["vision"].id)] = JobIntent(specs["vision"])
    show(records)
    return specs


def test_a_preview_says_who_would_be_stopped_and_changes_nothing(admin: Api, busy: dict[str, JobSpec]) -> None:
    nodes, _ = read(admin)
    nodes["speech"]["floor"] = {"H100": 48}
    nodes["research"]["floor"] = {"H100": 48}
    answer = admin.post("quotas/preview", {"nodes": list(nodes.values())})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    # Under the tree in force vision would take one of speech's places back.
    (spared,) = found["spared"]
    assert (spared["team"], spared["cause"], spared["for_job"]) == ("speech", "reclaim", busy["vision"].id)
    assert [shift["job"] for shift in found["later"]] == [busy["vision"].id]
    assert {shift["node"] for shift in found["levels"]} >= {"speech", "vision"}
    assert (found["undeliverable"], selectors.version()) == ([], 1)


def test_a_preview_names_no_jobs_of_teams_that_are_not_ones_own(busy: dict[str, JobSpec]) -> None:
    user = make_user("vera", "vision", admin=True)
    nodes, _ = read(Api(user))
    answer = Api(user).post("quotas/preview", {"nodes": list(nodes.values())})
    assert answer.status_code == 200
    nodes["vision"]["share"] = "50"
    problem(Api(user).post("quotas/preview", {"nodes": list(nodes.values())}), 403)


def test_floors_beyond_the_fleet_are_told(admin: Api) -> None:
    nodes, _ = read(admin)
    nodes["vision"]["floor"] = {"H100": 100}
    found = admin.post("quotas/preview", {"nodes": list(nodes.values())}).json()
    assert {"node": "", "gpu_type": "H100", "promised": 100, "total": 48, "usable": 48} in found["undeliverable"]


def test_history_comes_in_pages(admin: Api) -> None:
    for number in range(2, 7):
        nodes, tag = read(admin)
        nodes["vision"]["share"] = str(number)
        assert put(admin, nodes, tag).status_code == 200
    first = admin.get("quotas/history", {"limit": 4}).json()
    second = admin.get("quotas/history", {"limit": 4, "cursor": first["next_cursor"]}).json()
    assert [item["version"] for item in first["items"] + second["items"]] == [6, 5, 4, 3, 2, 1]
    assert second["next_cursor"] is None
