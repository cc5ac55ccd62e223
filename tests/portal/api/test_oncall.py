"""`maintenance`, `reservations`, quarantine release, removal and the audit: what on-call does, and who may not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from nodes.models import Maintenance, Node
from scheduler.core.types import (
    Health,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeDecision,
    NodeIntent,
    Phase,
    ReservationIntent,
    Slice,
)
from scheduler.models import Act, Outbox, Reservation
from scheduler.oncall import AppendOnly
from scheduler.store import codec, keys
from scheduler.store.base import Delete
from scheduler.store.memory import MemoryStore
from tests.portal.api.conftest import Api, problem

pytestmark = pytest.mark.usefixtures("fleet")
Show = Callable[..., None]


def at(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def window(**changes: Any) -> dict[str, Any]:
    return {"nodes": ["h1"], "start": at(1), "end": at(3), "reason": "new fans", **changes}


def reservation(**changes: Any) -> dict[str, Any]:
    wanted = {"name": "review", "team": "vision", "gpus": 16, "gpu_type": "H100", "reason": "deadline"}
    return {**wanted, "start": at(1), "end": at(3), **changes}


def sent(key: str) -> bytes:
    return bytes(Outbox.objects.filter(key=key).order_by("-pk")[0].value)


@pytest.fixture
def running(show: Show) -> None:
    """A gang of 16 on h1 and h2 with no checkpoint, for a day."""
    spec = JobSpec("R", "vision", 16, "H100", 2, 86_400_000, 0)
    slices = tuple(Slice(node, tuple(range(8))) for node in ("h1", "h2"))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    decision = JobDecision(Phase.RUNNING, 1, 1, slices, "H100", bound_ms=now_ms, started_ms=now_ms)
    show({keys.intent_job("R"): JobIntent(spec), keys.decision_job("R"): decision})


def test_a_window_reaches_its_hosts_and_is_called_off_again(pager: Api) -> None:
    planned = pager.post("maintenance", window(nodes=["h2", "h1"]))
    assert (planned.status_code, planned.json()["nodes"], planned.json()["place"]) == (201, ["h1", "h2"], "2 hosts")
    (kept,) = codec.decode(NodeIntent, sent(keys.intent_node("h2"))).maintenance
    assert kept.end_ms - kept.start_ms == pytest.approx(2 * 3_600_000, abs=2000)
    cancelled = pager.post(f"maintenance/{planned.json()['id']}/cancel", {"reason": "no fans came"})
    assert cancelled.json()["cancelled_at"]
    assert codec.decode(NodeIntent, sent(keys.intent_node("h2"))).maintenance == ()
    problem(pager.post(f"maintenance/{planned.json()['id']}/cancel", {}), 409)
    assert [act.act for act in Act.objects.all()] == ["maintenance_cancel", "maintenance"]


def test_two_windows_of_a_host_stand_beside_each_other(pager: Api) -> None:
    first = pager.post("maintenance", window()).json()["id"]
    pager.post("maintenance", window(start=at(10), end=at(11)))
    assert len(codec.decode(NodeIntent, sent(keys.intent_node("h1"))).maintenance) == 2
    pager.post(f"maintenance/{first}/cancel", {})
    assert len(codec.decode(NodeIntent, sent(keys.intent_node("h1"))).maintenance) == 1


@pytest.mark.usefixtures("running")
def test_a_dry_run_tells_the_radius_of_a_whole_rack_and_plans_nothing(pager: Api) -> None:
    body = {"az": "az1", "rack": "r1", "start": at(1), "end": at(3), "reason": "power"}
    found = pager.post("maintenance?dry_run=1", body).json()
    assert (found["id"], found["place"], len(found["nodes"])) == (None, "az1 r1", 4)
    radius = found["radius"]
    assert (radius["jobs"], radius["gpus"], radius["without_checkpoint"], radius["fits_elsewhere"]) == (1, 16, 1, 1)
    assert not Maintenance.objects.exists() and not Act.objects.exists() and not Outbox.objects.exists()


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param({"end": at(0.5)}, 400, id="ends before it starts"),
        pytest.param({"start": at(-3), "end": at(-1)}, 400, id="is over"),
        pytest.param({"start": "2026-12-01T10:00:00"}, 400, id="without a zone"),
        pytest.param({"start": 5}, 400, id="a number for a time"),
        pytest.param({"nodes": []}, 400, id="no host"),
        pytest.param({"nodes": ["h1"], "az": "az1"}, 400, id="hosts and a zone"),
        pytest.param({"nodes": None, "rack": "r1"}, 400, id="a rack of no zone"),
        pytest.param({"nodes": ["h1", "h99"]}, 404, id="an unknown host"),
        pytest.param({"reason": ""}, 400, id="without a reason"),
    ],
)
def test_a_window_that_is_none_is_refused(pager: Api, changes: dict[str, Any], status: int) -> None:
    body = {name: value for name, value in window(**changes).items() if value is not None}
    problem(pager.post("maintenance", body), status)
    assert not Maintenance.objects.exists() and not Act.objects.exists()


def test_a_reservation_reaches_the_scheduler_and_leaves_it(pager: Api) -> None:
    made = pager.post("reservations", reservation())
    assert (made.status_code, made.json()["free_by_then"]) == (201, 16)
    key = keys.intent_reservation(made.json()["id"])
    wish = codec.decode(ReservationIntent, sent(key))
    assert (wish.team, wish.gpus, wish.version) == ("vision", 16, 1)
    assert pager.post(f"reservations/{made.json()['id']}/cancel", {}).status_code == 202
    assert sent(key) == b""
    problem(pager.post(f"reservations/{made.json()['id']}/cancel", {}), 409)
    assert [row["name"] for row in pager.get("reservations").json()["items"]] == ["review"]


@pytest.mark.usefixtures("running")
def test_a_dry_run_tells_how_much_of_a_reservation_would_be_free(pager: Api) -> None:
    found = pager.post("reservations?dry_run=1", reservation(gpus=32)).json()
    # A zone of four hosts, two of them held beyond the start.
    assert (found["id"], found["free_by_then"]) == (None, 16)
    assert not Reservation.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"team": "nobody"}, "team", id="an unknown team"),
        pytest.param({"team": "research"}, "team", id="no leaf of the tree"),
        pytest.param({"gpu_type": "V100"}, "gpu_type", id="an unknown type"),
        pytest.param({"gpus": 33}, "gpus", id="more than a zone has"),
        pytest.param({"gpus": 0}, "gpus", id="no GPU"),
    ],
)
def test_a_reservation_that_nobody_could_keep_is_refused(pager: Api, changes: dict[str, Any], field: str) -> None:
    assert problem(pager.post("reservations", reservation(**changes)), 400)["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("maintenance", window()),
        ("maintenance?dry_run=1", window()),
        ("maintenance/1/cancel", {}),
        ("reservations", reservation()),
        ("reservations/x/cancel", {}),
        ("nodes/h1/release", {"reason": "x"}),
        ("nodes/h1/remove", {"reason": "x"}),
    ],
)
def test_only_on_call_acts(ada: Api, path: str, body: Any) -> None:
    problem(ada.post(path, body), 403)
    assert not Act.objects.exists()


def test_the_audit_is_for_on_call(ada: Api, pager: Api) -> None:
    problem(ada.get("audit"), 403)
    pager.post("nodes/h1/cordon", {"reason": "fan"})
    (act,) = pager.get("audit", {"act": "cordon"}).json()["items"]
    assert (act["by"], act["target"], act["nodes"], act["reason"]) == ("pager", "h1", ["h1"], "fan")
    assert act["radius"]["words"] == "no job is stopped; 8 free GPUs closed"
    assert pager.get("audit", {"act": "drain"}).json()["items"] == []


def test_the_audit_is_read_page_by_page(pager: Api) -> None:
    for name in ("h1", "h2", "h3"):
        pager.post(f"nodes/{name}/cordon", {"reason": "fan"})
    first = pager.get("audit", {"limit": 2}).json()
    rest = pager.get("audit", {"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [act["target"] for act in first["items"] + rest["items"]] == ["h3", "h2", "h1"]
    assert rest["next_cursor"] is None


def test_an_act_is_never_changed(pager: Api) -> None:
    pager.post("nodes/h1/cordon", {"reason": "fan"})
    act = Act.objects.get()
    for change in (act.save, act.delete, Act.objects.all().delete, lambda: Act.objects.update(reason="")):
        with pytest.raises(AppendOnly):
            change()
    for sql in ("UPDATE scheduler_act SET reason = ''", "DELETE FROM scheduler_act"):
        with pytest.raises(DatabaseError, match="kept for good"), transaction.atomic():
            connection.cursor().execute(sql)


def test_a_release_from_quarantine_pardons_what_failed(pager: Api) -> None:
    assert pager.post("nodes/h1/release", {"reason": "new cable"}).status_code == 202
    assert codec.decode(NodeIntent, sent(keys.intent_node("h1"))).pardon_ms > 0


def test_a_host_that_answers_is_not_removed(pager: Api) -> None:
    assert problem(pager.post("nodes/h1/remove", {"reason": "sold"}), 409)["type"].endswith("still-alive")
    assert Node.objects.get(pk="h1").removed_at is None


def test_a_host_that_is_gone_is_removed_and_its_name_is_free(
    pager: Api, show: Show, store: MemoryStore, picture: Any
) -> None:
    show({keys.decision_node("h1"): NodeDecision(Health.DOWN)})
    gone = store.commit([], [Delete(keys.alive("h1"))])
    assert picture.wait_for(gone.revision, 10)
    assert pager.post("nodes/h1/remove", {"reason": "sold"}).status_code == 202
    assert sent(keys.intent_node("h1")) == b""
    problem(pager.post("nodes/h1/cordon", {"reason": "again"}), 404)
    assert Act.objects.get().act == "remove"
