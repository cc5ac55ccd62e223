"""The cluster's pages: hosts as a table, one host, and what on-call does to it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.test import Client

from nodes.models import Node
from scheduler import picture as picture_module
from scheduler.models import Job, Outbox
from scheduler.picture import Picture
from scheduler.store.base import StoreUnavailable

pytestmark = pytest.mark.usefixtures("fleet")
Make = Callable[..., Job]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 7),
        ("?az=az1", 4),
        ("?gpu_type=A100", 1),
        ("?q=H7", 1),
        ("?state=DOWN", 0),
        ("?az=az2&gpu_type=H100", 2),
        ("?page=99", 7),
        ("?page=-1", 7),
    ],
)
def test_the_table_is_narrowed_by_the_address(ada: Client, query: str, count: int) -> None:
    assert ada.get(f"/cluster/hosts/{query}").context["count"] == count


def test_the_map_names_every_type_without_a_script(ada: Client) -> None:
    page = ada.get("/cluster/").content.decode()
    assert 'data-type="H100"' in page
    assert 'data-type="A100"' in page


def test_a_host_shows_its_jobs_by_name_to_those_who_may_know_it(ada: Client, eve: Client, make_job: Make) -> None:
    job = make_job("ada", name="secret-run", on={"h1": (0, 1)})
    for path in ("/cluster/hosts/h1/", "/cluster/hosts/h1/panel/?gpu=1"):
        assert "secret-run" in ada.get(path).content.decode()
        page = eve.get(path).content.decode()
        assert "secret-run" not in page
        assert f"/jobs/{job.pk}/" not in page
        assert "another team’s job" in page
        assert "vision" in page


def test_a_host_that_is_none_is_not_there(ada: Client) -> None:
    for path in ("/cluster/hosts/h99/", "/cluster/hosts/h99/panel/", "/cluster/hosts/h%00/"):
        assert ada.get(path).status_code == 404


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_only_oncall_operates_hosts(ada: Client, act: str) -> None:
    assert ada.post(f"/cluster/hosts/h1/{act}/").status_code == 403
    assert "Operate" not in ada.get("/cluster/hosts/h1/").content.decode()
    assert not Node.objects.exclude(cordon_reason=None, drain_reason=None).exists()


def test_oncall_cordons_with_a_reason_and_takes_it_back(oncall: Client) -> None:
    oncall.post("/cluster/hosts/h1/cordon/", {"reason": "  fan\x00   noise "})
    assert Node.objects.get(pk="h1").cordon_reason == "fan noise"
    assert "Cordoned: fan noise" in oncall.get("/cluster/hosts/h1/").content.decode()
    oncall.post("/cluster/hosts/h1/uncordon/")
    assert Node.objects.get(pk="h1").cordon_reason is None


def test_a_reason_is_never_empty(oncall: Client) -> None:
    oncall.post("/cluster/hosts/h1/drain/", {"reason": " "})
    assert Node.objects.get(pk="h1").drain_reason == "by otto"


def test_the_panel_gets_itself_back_after_an_act(oncall: Client) -> None:
    answer = oncall.post("/cluster/hosts/h1/cordon/", headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 200
    assert "h1 takes no new work." in answer.content.decode()
    assert "<html" not in answer.content.decode()


def test_the_intent_goes_by_the_outbox(oncall: Client) -> None:
    oncall.post("/cluster/hosts/h1/cordon/", {"reason": "x"})
    assert Outbox.objects.filter(key__endswith="/intent/nodes/h1").exists()


def test_the_blast_of_a_drain_is_told_before_it(oncall: Client, make_job: Make) -> None:
    make_job(on={"h1": (0, 1), "h2": (0, 1, 2, 3)})
    page = oncall.get("/cluster/hosts/h1/").content.decode()
    assert "1 job, 6 GPUs, all can checkpoint; all fit elsewhere now." in page


def test_every_page_stands_while_the_live_state_was_never_loaded(
    oncall: Client, picture: Picture, monkeypatch: pytest.MonkeyPatch, make_job: Make
) -> None:
    job = make_job()

    def away() -> None:
        raise StoreUnavailable("away")

    monkeypatch.setitem(picture_module._pictures, os.getpid(), Picture(away, lambda: 0))  # type: ignore[arg-type]
    try:
        paths = ("/", "/jobs/", "/submit/", "/queue/", "/cluster/", "/cluster/hosts/", "/cluster/hosts/h1/")
        for path in (*paths, f"/jobs/{job.pk}/"):
            assert oncall.get(path).status_code == 200, path
        assert "has not loaded the live state" in oncall.get("/").content.decode()
    finally:
        picture_module.picture().stop()
