"""Several jobs at once, and saved views: who may, what is shown first, what is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from portal.accounts.models import SavedView
from scheduler.models import Act, Job, Outbox
from tests.portal.people import make_user

Make = Callable[..., Job]


def ask(client: Client, act: str, *jobs: Job, **more: str) -> object:
    return client.get("/jobs/together/", {"act": act, "job": [job.pk for job in jobs], **more})


def test_nothing_is_done_before_it_is_confirmed(ada: Client, make_job: Make) -> None:
    job = make_job("ada")
    page = ada.get("/jobs/together/", {"act": "cancel", "job": [job.pk]}).content.decode()
    assert "1 job on 8 GPUs?" in page
    job.refresh_from_db()
    assert not job.cancel


def test_each_job_is_looked_at_by_itself(ada: Client, make_job: Make) -> None:
    hers, over, his = make_job("ada", name="hers"), make_job("ada", name="over", state="FAILED"), make_job("bob")
    picked = {"act": "cancel", "job": [hers.pk, over.pk, his.pk]}
    shown = ada.get("/jobs/together/", picked)
    assert {line.job.pk: bool(line.refusal) for line in shown.context["lines"]} == {
        hers.pk: False,
        over.pk: True,
        his.pk: True,
    }
    answer = ada.post("/jobs/together/", picked, follow=True)
    assert "1 job is being cancelled; nothing was done to 2." in answer.content.decode()
    assert list(Job.objects.filter(cancel=True)) == [hers]


def test_another_teams_jobs_are_not_even_named(eve: Client, make_job: Make) -> None:
    job = make_job("ada", name="secret-run")
    answer = eve.post("/jobs/together/", {"act": "cancel", "job": [job.pk]}, follow=True)
    assert "secret-run" not in answer.content.decode()
    assert "Pick one or more jobs first" in answer.content.decode()
    assert not Job.objects.filter(cancel=True).exists()


def test_a_new_priority_reaches_the_row_the_body_and_the_scheduler(
    ada: Client, make_job: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("ada")
    ada.post("/jobs/together/", {"act": "priority", "priority": "P3", "job": [job.pk]})
    job.refresh_from_db()
    assert (job.priority, job.core_spec["priority"], job.spec["priority"], job.intent_version) == (3, 3, "P3", 2)
    assert Outbox.objects.filter(key__endswith=job.pk, version=2).exists()


def test_what_is_somebody_elses_is_noted_with_the_reason(ada: Client, oncall: Client, make_job: Make) -> None:
    own, others = make_job("ada"), make_job("bob")
    ada.post("/jobs/together/", {"act": "cancel", "job": [own.pk]})
    oncall.post("/jobs/together/", {"act": "cancel", "job": [others.pk], "reason": "runs away"})
    act = Act.objects.get()
    assert (act.job, act.reason, act.by.username) == (others.pk, "runs away", "otto")


def test_p0_is_given_only_where_the_team_has_it(oncall: Client, make_job: Make) -> None:
    job = make_job("ada")
    shown = oncall.get("/jobs/together/", {"act": "priority", "priority": "P0", "job": [job.pk]})
    assert shown.context["lines"][0].refusal == "vision has no right to P0"


@pytest.mark.parametrize("query", [{}, {"act": "cancel"}, {"act": "priority", "priority": "P9"}, {"act": "burn"}])
def test_a_request_without_jobs_or_act_leads_back(ada: Client, make_job: Make, query: dict[str, str]) -> None:
    job = make_job("ada")
    picked = {} if query == {"act": "cancel"} else {"job": job.pk}
    assert ada.get("/jobs/together/", {**query, **picked, "back": "https://evil.example/"})["Location"] == "/jobs/"


def test_what_may_not_be_acted_on_cannot_be_picked(bob: Client, make_job: Make) -> None:
    make_job("ada")
    assert "data-pick>" not in bob.get("/jobs/?whose=all").content.decode()


def test_a_view_is_kept_under_its_name_and_is_ones_own(ada: Client, bob: Client) -> None:
    query = "whose=all&state=RUNNING&state=STOPPING&q=x"
    answer = ada.post("/jobs/views/", {"name": " My  runs ", "query": query + "&after=1&evil=1"})
    assert answer["Location"] == f"/jobs/?{query}"
    page = ada.get(f"/jobs/?{query}")
    assert [view.name for view in page.context["saved"]] == ["My runs"]
    assert page.context["is_saved"]
    assert "My runs" not in bob.get("/jobs/").content.decode()
    view = SavedView.objects.get()
    assert bob.post(f"/jobs/views/{view.pk}/delete/").status_code == 404
    ada.post("/jobs/views/", {"name": "My runs", "query": "whose=mine"})
    view.refresh_from_db()
    assert view.query == "whose=mine"
    ada.post(f"/jobs/views/{view.pk}/delete/")
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("name", ["", "  ", "\x00"])
def test_a_view_without_a_name_is_refused(ada: Client, name: str) -> None:
    answer = ada.post("/jobs/views/", {"name": name, "query": ""}, follow=True)
    assert "A view needs a name." in answer.content.decode()


@pytest.mark.usefixtures("fleet")
def test_search_finds_each_kind(ada: Client, make_job: Make) -> None:
    job = make_job("ada", name="vis-run")
    found = ada.get("/search/?q=vis").context
    assert ([one.pk for one in found["jobs"]], [one.name for one in found["teams"]]) == ([job.pk], ["vision"])
    assert [host.name for host in ada.get("/search/?q=H1").context["hosts"]] == ["h1"]
    assert [person.username for person in ada.get("/search/?q=ADA").context["people"]] == ["ada"]
    assert ada.get(f"/search/?q={job.pk.lower()}")["Location"] == f"/jobs/{job.pk}/"


def test_search_finds_nothing_of_another_team(eve: Client, make_job: Make) -> None:
    job = make_job("ada", name="secret-run")
    make_user("zoe", "vision")
    for text in ("secret", "zoe", job.pk):
        assert eve.get("/search/", {"q": text}).context["nothing"]


@pytest.mark.parametrize("text", ["", "%00", "a" * 5000, "%25_%25", "'"])
def test_odd_searches_are_answered(ada: Client, text: str) -> None:
    assert ada.get(f"/search/?q={text}").status_code == 200
