"""On-call acts on hosts, racks and zones from one page, the radius first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from nodes.models import Maintenance, Node
from scheduler.models import Act, Job

pytestmark = pytest.mark.usefixtures("fleet")
Make = Callable[..., Job]
FETCH = {"X-Requested-With": "fetch"}


def field(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


def test_a_rack_is_drained_with_a_reason_after_its_radius_was_told(oncall: Client, make_job: Make) -> None:
    make_job(on={"h1": (0, 1), "h2": (0, 1)})
    page = oncall.get("/cluster/operate/?az=az1&rack=r1").content.decode()
    assert "1 job, 4 GPUs, all can checkpoint; 0 fit elsewhere now." not in page
    assert "1 job, 4 GPUs, all can checkpoint" in page
    assert "vision: 1 job, 4 GPUs" in page
    oncall.post("/cluster/operate/", {"hosts": "h1,h2,h3,h4", "act": "drain", "reason": "power work"})
    assert set(Node.objects.filter(drain_reason="power work").values_list("pk", flat=True)) == {"h1", "h2", "h3", "h4"}
    act = Act.objects.get()
    assert act.radius is not None
    assert (act.act, act.target, act.radius["jobs"]) == ("drain", "4 hosts", 1)


def test_without_a_reason_nothing_is_done(oncall: Client) -> None:
    page = oncall.post("/cluster/operate/", {"hosts": "h1", "act": "cordon", "reason": " "}, headers=FETCH)
    assert "Say why" in page.content.decode()
    assert not Act.objects.exists()


def test_the_radius_of_a_maintenance_is_checked_for_its_start(oncall: Client, make_job: Make) -> None:
    make_job(on={"h1": (0, 1)})  # its limit is an hour
    start = timezone.now() + timedelta(hours=3)
    asked = {"hosts": "h1", "act": "maintenance", "start": field(start), "end": field(start + timedelta(hours=1))}
    page = oncall.post("/cluster/operate/", {**asked, "check": "1"}, headers=FETCH).content.decode()
    assert "No job is stopped" in page
    assert not Maintenance.objects.exists()
    done = oncall.post("/cluster/operate/", {**asked, "reason": "fans"}, headers=FETCH).content.decode()
    assert "Maintenance of h1 is planned." in done
    assert Maintenance.objects.get().start == start.replace(second=0, microsecond=0)


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("", "", "Give a start and an end."),
        ("2030-01-01T10:00", "2030-01-01T09:00", "not after the start"),
        ("2020-01-01T10:00", "2020-01-01T11:00", "passed already"),
        ("2030-13-01T10:00", "x", "Give a start and an end."),
    ],
)
def test_a_span_that_is_none_is_told(oncall: Client, start: str, end: str, words: str) -> None:
    asked = {"hosts": "h1", "act": "maintenance", "start": start, "end": end, "reason": "x"}
    assert words in oncall.post("/cluster/operate/", asked, headers=FETCH).content.decode()
    assert not Maintenance.objects.exists()


def test_others_look_and_do_not_act(ada: Client) -> None:
    page = ada.get("/cluster/operate/?az=az1").content.decode()
    assert "Largest gang" in page
    assert "Operate" not in page
    assert ada.post("/cluster/operate/", {"hosts": "h1", "act": "drain", "reason": "x"}).status_code == 403


@pytest.mark.parametrize("query", ["", "?az=az9", "?hosts=h99", "?rack=r1", "?az=%00"])
def test_hosts_that_are_none_are_not_there(oncall: Client, query: str) -> None:
    assert oncall.get(f"/cluster/operate/{query}").status_code == 404


def test_an_unknown_act_is_none(oncall: Client) -> None:
    assert oncall.post("/cluster/operate/", {"hosts": "h1", "act": "explode", "reason": "x"}).status_code == 404


def test_the_number_of_queries_does_not_grow_with_hosts(
    oncall: Client, django_assert_max_num_queries: Callable[..., object]
) -> None:
    with django_assert_max_num_queries(8):  # type: ignore[attr-defined]
        oncall.get("/cluster/operate/?az=az1")
