"""The incidents' page, what is planned, and the audit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nodes.models import Maintenance
from scheduler.models import Act, Job, JobEvent, Reservation

pytestmark = pytest.mark.usefixtures("fleet")
Make = Callable[..., Job]


def event(number: int, kind: str, minutes: float, job: Job | None = None, node: str = "", **detail: Any) -> None:
    at = timezone.now() - timedelta(minutes=minutes)
    fields = {"attempt": detail.pop("attempt", 0), "detail": detail, "kind": kind, "at": at, "job": job, "node": node}
    JobEvent.objects.create(entry=f"e{number}", position=0, revision=number, **fields)


@pytest.fixture
def lost_host(ada: Client, make_job: Make) -> Job:
    """h1 was lost half an hour ago, came back, and its job went to h2."""
    job = make_job("ada", name="secret-run", live=False)
    event(1, "bind", 60, job, attempt=1, gpus={"h1": [0]}, phase="STARTING")
    event(2, "host", 31, node="h1", state="SUSPECT", why="no sign of life")
    event(3, "host", 30, node="h1", state="DOWN", why="no sign of life")
    event(4, "stop", 30, job, attempt=1, cause="node_failure", phase="PENDING")
    event(5, "bind", 28, job, attempt=2, gpus={"h2": [0]}, phase="STARTING")
    event(6, "host", 10, node="h1", state="READY", why="")
    return job


def test_a_lost_host_is_told_with_its_jobs_and_where_they_went(lost_host: Job, ada: Client) -> None:
    page = ada.get("/incidents/")
    (line,) = page.context["before"]
    ((stopped, job, _),) = line.jobs
    assert (line.words, line.where, job, stopped.to) == ("Host lost", "h1", lost_host, ("h2",))
    assert not page.context["now"]
    assert "Nothing is on fire." in page.content.decode()


def test_another_teams_job_has_no_name(lost_host: Job, eve: Client) -> None:
    page = eve.get("/incidents/").content.decode()
    assert "secret-run" not in page
    assert lost_host.pk not in page
    assert "another team’s job" in page


def test_what_lasts_stands_under_now(ada: Client) -> None:
    event(1, "gpu", 5, node="h2", gpu=3, state="FAULTY")
    (line,) = ada.get("/incidents/").context["now"]
    assert (line.words, line.where) == ("GPU fault", "h2 GPU 3")


def test_what_is_older_than_a_week_is_not_shown(ada: Client) -> None:
    event(1, "host", 8 * 1440, node="h1", state="DOWN", why="x")
    assert not ada.get("/incidents/").context["now"]


def test_jobs_that_nobody_looks_at_mean_that_the_queue_is_stuck(ada: Client, make_job: Make) -> None:
    make_job()  # submitted a minute ago
    (alert,) = ada.get("/incidents/").context["alerts"]
    assert alert.words == "The queue is stuck: nobody looks at 1 job"


def test_the_number_of_queries_stays(
    lost_host: Job, ada: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(10, 40):
        event(number, "host", number, node=f"h{number % 7 + 1}", state="DOWN", why="x")
    with django_assert_max_num_queries(12):
        ada.get("/incidents/")


def field(hours: float) -> str:
    moment: datetime = timezone.now() + timedelta(hours=hours)
    return moment.strftime("%Y-%m-%dT%H:%M")


def booking(**changes: str) -> dict[str, str]:
    wanted = {"name": "review", "team": "vision", "gpus": "16", "gpu_type": "H100", "reason": "deadline"}
    return {**wanted, "start": field(1), "end": field(2), **changes}


def test_on_call_reserves_after_a_look_and_calls_it_off(oncall: Client) -> None:
    looked = oncall.post("/planned/", booking(check="1", reason=""))
    assert looked.context["free_by_then"] == 16
    assert not Reservation.objects.exists()
    oncall.post("/planned/", booking())
    row = Reservation.objects.get()
    assert "review" in oncall.get("/planned/").content.decode()
    oncall.post(f"/planned/reservations/{row.pk}/cancel/")
    row.refresh_from_db()
    assert row.cancelled_at is not None
    assert [act.act for act in Act.objects.all()] == ["reservation_cancel", "reserve"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": "x"}, "Give a number of GPUs."),
        ({"gpus": "99"}, "more than the largest zone has"),
        ({"team": "nobody"}, "is no team"),
        ({"end": field(0.5)}, "The end is not after the start."),
        ({"name": "\x00 "}, "Give it a name."),
        ({"reason": ""}, "Say why"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_said_and_nothing_typed_is_lost(
    oncall: Client, changes: dict[str, str], words: str
) -> None:
    page = oncall.post("/planned/", booking(**changes))
    assert words in page.content.decode()
    assert page.context["typed"]["start"] == booking()["start"]
    assert not Reservation.objects.exists()


def test_a_maintenance_is_called_off(oncall: Client) -> None:
    span = {"start": field(1), "end": field(2), "reason": "fans"}
    oncall.post("/cluster/operate/", {"hosts": "h1", "act": "maintenance", **span})
    window = Maintenance.objects.get()
    assert "fans" in oncall.get("/planned/").content.decode()
    oncall.post(f"/planned/maintenance/{window.pk}/cancel/")
    window.refresh_from_db()
    assert window.cancelled_at is not None
    assert oncall.post("/planned/maintenance/999/cancel/").status_code == 404


def test_only_on_call_plans_and_reads_the_audit(ada: Client, make_job: Make) -> None:
    assert ada.get("/planned/").status_code == 200
    assert ada.post("/planned/", booking()).status_code == 403
    assert ada.post("/planned/maintenance/1/cancel/").status_code == 403
    assert ada.post("/planned/reservations/x/cancel/").status_code == 403
    assert ada.get("/audit/").status_code == 403


def test_what_on_call_does_to_somebodys_job_is_in_the_audit_and_ones_own_is_not(
    oncall: Client, ada: Client, make_job: Make
) -> None:
    mine, theirs = make_job("ada"), make_job("ada", name="theirs")
    ada.post(f"/jobs/{mine.pk}/cancel/")
    oncall.post(f"/jobs/{theirs.pk}/cancel/", {"reason": "eats the network"})
    (act,) = Act.objects.all()
    assert (act.act, act.job, act.reason) == ("job_cancel", theirs.pk, "eats the network")
    page = oncall.get("/audit/").content.decode()
    assert "Cancel a job" in page
    assert "eats the network" in page


def test_the_audit_is_narrowed_and_turned(oncall: Client) -> None:
    for name in ("h1", "h2"):
        oncall.post(f"/cluster/hosts/{name}/cordon/", {"reason": "x"})
    assert len(oncall.get("/audit/?act=cordon&by=otto").context["acts"]) == 2
    assert not oncall.get("/audit/?act=drain").context["acts"]
    assert not oncall.get("/audit/?by=nobody").context["acts"]
    newest = Act.objects.first()
    assert newest is not None
    assert len(oncall.get(f"/audit/?before={newest.pk}").context["acts"]) == 1
    assert oncall.get("/audit/?before=x%00&act=%00").status_code == 200


def test_a_notice_is_told_with_what_was_done_and_whom_it_moved(ada: Client, make_job: Make) -> None:
    job = make_job("ada", name="moved", live=False)
    event(1, "bind", 60, job, attempt=1, gpus={"h1": [0]}, phase="STARTING")
    event(2, "notice", 10, node="h1", state="STANDS", notice="terminate", id="aws-1", gone_at_ms=1)
    event(3, "stop", 10, job, attempt=1, cause="spot", phase="STOPPING")
    event(4, "bind", 9, job, attempt=2, gpus={"h2": [0]}, phase="STARTING")
    event(5, "host", 8, node="h1", state="DOWN", why="taken away by its provider")
    (line,) = ada.get("/incidents/").context["before"]
    ((stopped, moved, _),) = line.jobs
    assert (line.words, line.where, moved, stopped.to) == ("Spot host taken back", "h1", job, ("h2",))
    assert "other places were booked for them" in line.doing


def test_a_gpu_fault_says_which_it_is_and_what_it_calls_for(ada: Client) -> None:
    event(1, "gpu", 5, node="h2", gpu=3, state="XID", xid=79, remedy="reboot_host")
    event(2, "gpu", 5, node="h2", gpu=3, state="FAULTY")
    (line,) = ada.get("/incidents/").context["now"]
    assert (line.words, line.where, line.incident.why) == ("GPU fault", "h2 GPU 3", "Xid 79")
    assert "has to be restarted" in line.doing


def test_every_kind_of_notice_has_its_words(ada: Client) -> None:
    for number, kind in enumerate(("rebalance", "maintenance", "repair", "freeze", "what is new")):
        event(number, "notice", 10 - number, node="h1", state="STANDS", notice=kind, id=f"n{number}")
    words = [line.words for line in ada.get("/incidents/").context["now"]]
    assert len(set(words)) == 5
