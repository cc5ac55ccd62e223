"""`repairs`: what could be moved, who may see it, and agreeing to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from portal.operations import Kind
from scheduler import clock
from scheduler.core.types import CheckpointSpec, JobDecision, JobIntent, JobSpec, Phase, RepairIntent, Slice
from scheduler.models import Act, Outbox
from scheduler.store import codec, keys
from tests.portal.api.conftest import Api, problem

pytestmark = pytest.mark.usefixtures("fleet")
SAVES = CheckpointSpec(1_800_000, 20_000)


@pytest.fixture
def broken(show: Callable[..., None]) -> None:
    """Half of every host of H100 is taken, and a job of a whole host waits."""
    now_ms = clock.now_ms()
    records: dict[str, Any] = {}
    for host in range(1, 7):
        name = f"HALF{host}"
        spec = JobSpec(name, "vision", 4, "H100", 2, 86_400_000, now_ms, checkpoint=SAVES)
        held = (Slice(f"h{host}", (0, 1, 2, 3)),)
        records[keys.intent_job(name)] = JobIntent(spec)
        records[keys.decision_job(name)] = JobDecision(
            Phase.RUNNING, 1, 1, held, "H100", bound_ms=now_ms - 9_000, started_ms=now_ms - 9_000
        )
    records[keys.intent_job("WIDE")] = JobIntent(JobSpec("WIDE", "speech", 8, "H100", 2, 86_400_000, now_ms))
    show(records)


def intent() -> RepairIntent:
    row = Outbox.objects.filter(key=keys.INTENT_REPAIR).order_by("-pk")[0]
    return codec.decode(RepairIntent, bytes(row.value))


def test_proposals_have_their_price_and_gain(broken: None, pager: Api) -> None:
    answer = pager.get("repairs").json()
    assert answer["mode"] == "off"
    (one,) = answer["items"]
    assert (one["job"], one["team"], one["gpus"], len(one["moves"])) == ("WIDE", "speech", 8, 1)
    assert one["price_gpu_hours"] == pytest.approx(4 * 80 / 3600, abs=0.001)


def test_what_is_agreed_to_is_in_the_audit_and_on_its_way(broken: None, pager: Api) -> None:
    (one,) = pager.get("repairs").json()["items"]
    done = pager.post(f"repairs/{one['id']}/accept", {"reason": "demo at noon"})
    assert (done.status_code, done.json()["id"]) == (202, one["id"])
    act = Act.objects.get()
    assert (act.act, act.job, act.reason) == (Kind.REPAIR, "WIDE", "demo at noon")
    (wish,) = intent().accepted
    assert (wish.job, wish.moved, intent().version) == ("WIDE", ((one["moves"][0]["job"], 1),), act.pk)
    assert wish.until_ms > clock.now_ms()


def test_what_is_not_proposed_any_more_is_not_found(broken: None, pager: Api) -> None:
    problem(pager.post("repairs/WIDE-00000000/accept", {}), 404)
    assert not Act.objects.exists()


def test_only_on_call_sees_and_agrees(broken: None, ada: Api) -> None:
    problem(ada.get("repairs"), 403)
    problem(ada.post("repairs/x/accept", {}), 403)


def test_nothing_is_proposed_on_an_empty_fleet(pager: Api) -> None:
    assert pager.get("repairs").json()["items"] == []


def test_on_call_agrees_on_the_page(broken: None, pager: Api) -> None:
    page = Client()
    assert pager.user is not None
    page.force_login(pager.user)
    shown = page.get("/planned/").content.decode()
    (one,) = pager.get("repairs").json()["items"]
    assert f"/planned/moves/{one['id']}/" in shown
    page.post(f"/planned/moves/{one['id']}/", {"reason": "noon"})
    assert Act.objects.get().reason == "noon"
    gone = page.post("/planned/moves/WIDE-00000000/", {}, follow=True).content.decode()
    assert "not so any more" in gone


def test_others_see_no_moves_on_the_page(broken: None, ada: Api) -> None:
    page = Client()
    assert ada.user is not None
    page.force_login(ada.user)
    assert "Moves that make room" not in page.get("/planned/").content.decode()
    assert page.post("/planned/moves/x/", {}).status_code == 403
