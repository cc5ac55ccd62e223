"""Changing a job from its page, and submitting it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from portal.accounts.models import User
from scheduler.models import Act, Job
from tests.portal.api.conftest import body

Make = Callable[..., Job]
KEPT = {"name": "train", "priority": "P2", "max_runtime_hours": "1"}


def test_its_owner_changes_it(ada: Client, make_job: Make) -> None:
    job = make_job()
    assert "Its values" in ada.get(f"/jobs/{job.pk}/change/").content.decode()
    answer = ada.post(f"/jobs/{job.pk}/change/", {**KEPT, "priority": "P1", "max_runtime_hours": "0.5"}, follow=True)
    assert "train: priority, time limit changed." in answer.content.decode()
    job.refresh_from_db()
    assert (job.priority, job.max_runtime_ms, job.name) == (1, 1_800_000, "train")
    assert not Act.objects.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"priority": "P0"}, "may not be P0 for vision. Ask for P1", id="a right is missing"),
        pytest.param({"max_runtime_hours": "soon"}, "Must be a number", id="no number"),
        pytest.param({"max_runtime_hours": "-1"}, "outside 0.01", id="no time"),
        pytest.param({"name": ""}, "Fill this in.", id="no name"),
        pytest.param({"priority": "P9"}, "Select a valid choice", id="no class"),
    ],
)
def test_what_cannot_be_is_said_beside_its_field(
    ada: Client, make_job: Make, changes: dict[str, str], said: str
) -> None:
    job = make_job()
    answer = ada.post(f"/jobs/{job.pk}/change/", KEPT | changes)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    job.refresh_from_db()
    assert job.intent_version == 1


def test_who_may_not_act_may_not_change(bob: Client, eve: Client, make_job: Make) -> None:
    job = make_job("ada")
    assert bob.get(f"/jobs/{job.pk}/change/").status_code == 403
    assert eve.get(f"/jobs/{job.pk}/change/").status_code == 404
    assert eve.post(f"/jobs/{job.pk}/again/").status_code == 404


def test_what_oncall_changes_of_others_is_in_the_audit(oncall: Client, make_job: Make) -> None:
    job = make_job()
    oncall.post(f"/jobs/{job.pk}/change/", {**KEPT, "name": "other", "priority": "P3", "reason": "too many"})
    act = Act.objects.get()
    assert (act.act, act.reason) == ("job_change", "too many")
    assert act.detail["changes"] == {"priority": [2, 3], "name": ["train", "other"]}


@pytest.mark.usefixtures("fleet")
def test_more_time_while_it_runs_is_for_admins(ada: Client, oncall: Client, make_job: Make) -> None:
    job = make_job(on={"h1": (0,)})
    answer = ada.post(f"/jobs/{job.pk}/change/", {**KEPT, "max_runtime_hours": "5"})
    assert "May not be raised while the job runs" in answer.content.decode()
    assert oncall.post(f"/jobs/{job.pk}/change/", {**KEPT, "max_runtime_hours": "5"}).status_code == 302


@pytest.mark.usefixtures("fleet")
def test_what_is_over_is_submitted_again_once(ada: Client, make_job: Make) -> None:
    job = make_job(state="SUCCEEDED", live=False)
    Job.objects.filter(pk=job.pk).update(spec=body())
    assert "Submit it again" in ada.get(f"/jobs/{job.pk}/").content.decode()
    for _ in range(2):
        answer = ada.post(f"/jobs/{job.pk}/again/", {"once": "k1"})
    made = Job.objects.exclude(pk=job.pk).get()
    assert answer["Location"] == f"/jobs/{made.pk}/"
    assert made.submitted_by == User.objects.get(username="ada")


@pytest.mark.usefixtures("fleet")
def test_what_may_not_be_submitted_any_more_leads_to_the_form(ada: Client, make_job: Make) -> None:
    job = make_job(state="FAILED", live=False)
    wrong = body()
    Job.objects.filter(pk=job.pk).update(spec={**wrong, "priority": "P0"})
    answer = ada.post(f"/jobs/{job.pk}/again/", follow=True)
    assert "It cannot be submitted as it was" in answer.content.decode()
    assert answer.redirect_chain[-1][0] == f"/submit/?from={job.pk}"
