"""The list of jobs, and one job's page: who sees what, what it says, what it lets one do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from scheduler.core.types import GangReport, JobDecision, NodeReport, Phase, RankReport, RankState
from scheduler.models import Job
from scheduler.store import keys

Make = Callable[..., Job]


def names(client: Client, query: str = "") -> list[str]:
    return [job.name for job in client.get(f"/jobs/{query}").context["jobs"]]


def test_one_sees_ones_own_first_and_ones_teams_on_demand(ada: Client, bob: Client, make_job: Make) -> None:
    make_job("ada", name="hers")
    make_job("bob", name="his")
    assert names(ada) == ["hers"]
    assert sorted(names(ada, "?whose=all")) == ["hers", "his"]


def test_another_teams_jobs_are_nowhere(eve: Client, make_job: Make) -> None:
    make_job("ada", name="secret-run")
    assert names(eve, "?whose=all") == []
    assert "secret-run" not in eve.get("/queue/").content.decode()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?state=RUNNING", ["runs"]),
        ("?state=RUNNING&state=PENDING", ["runs", "waits"]),
        ("?q=wait", ["waits"]),
        ("?state=NONSENSE", ["runs", "waits"]),
        ("?priority=P1", []),
        ("?team=vision", ["runs", "waits"]),
        ("?q=%00", ["runs", "waits"]),
        ("?after=nonsense", ["runs", "waits"]),
    ],
)
def test_filters_are_in_the_address(ada: Client, make_job: Make, query: str, found: list[str]) -> None:
    make_job(name="waits")
    make_job(name="runs", on={"h1": (0,)})
    assert sorted(names(ada, query)) == found


def test_counts_are_of_all_states_under_the_other_filters(ada: Client, make_job: Make) -> None:
    make_job(name="waits")
    make_job(name="runs", on={"h1": (0,)})
    counts = {one["value"]: one["count"] for one in ada.get("/jobs/?state=PENDING&q=wai").context["counts"]}
    assert counts == {"": 1, "PENDING": 1, "RUNNING": 0}


def test_pages_follow_each_other_without_gap_or_repeat(
    ada: Client, make_job: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.views.jobs.PAGE", 2)
    made = [make_job(name=f"job-{n}", live=False).name for n in range(5)]
    seen, query = [], ""
    while True:
        answer = ada.get(f"/jobs/?{query}")
        seen += [job.name for job in answer.context["jobs"]]
        query = answer.context["older"]
        if not query:
            break
    assert sorted(seen) == made
    assert len(seen) == 5


def test_a_list_costs_the_same_whatever_its_length(
    ada: Client, make_job: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(30):
        make_job(name=f"job-{n}", live=False)
    with django_assert_max_num_queries(7):
        assert len(names(ada)) == 30


def test_a_job_of_another_team_is_not_there(eve: Client, make_job: Make) -> None:
    job = make_job()
    for path in ("", "cancel/", "hold/"):
        send = eve.post if path else eve.get
        assert send(f"/jobs/{job.pk}/{path}").status_code == 404
    assert eve.get("/jobs/0123456789/").status_code == 404


def test_a_teammate_sees_and_may_not_cancel(bob: Client, make_job: Make) -> None:
    job = make_job("ada")
    page = bob.get(f"/jobs/{job.pk}/").content.decode()
    assert "Cancel the job" not in page
    answer = bob.post(f"/jobs/{job.pk}/cancel/")
    assert answer.status_code == 403
    assert "Only its owner" in answer.content.decode()
    job.refresh_from_db()
    assert not job.cancel


def test_its_owner_cancels_it(ada: Client, make_job: Make) -> None:
    job = make_job()
    answer = ada.post(f"/jobs/{job.pk}/cancel/", follow=True)
    job.refresh_from_db()
    assert job.cancel
    assert "train is being cancelled." in answer.content.decode()


def test_what_is_over_is_not_cancelled(ada: Client, make_job: Make) -> None:
    job = make_job(state="SUCCEEDED", live=False)
    answer = ada.post(f"/jobs/{job.pk}/cancel/", follow=True)
    assert "was over already" in answer.content.decode()


def test_hold_and_release(ada: Client, make_job: Make) -> None:
    job = make_job()
    ada.post(f"/jobs/{job.pk}/hold/")
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "It is held." in page
    ada.post(f"/jobs/{job.pk}/release/")
    job.refresh_from_db()
    assert not job.hold


@pytest.mark.usefixtures("fleet")
def test_a_running_job_shows_its_hosts_by_rack(ada: Client, make_job: Make) -> None:
    job = make_job(on={"h1": (0, 1, 2), "h2": (5,)})
    answer = ada.get(f"/jobs/{job.pk}/")
    (rack,) = answer.context["racks"]
    assert (rack["az"], rack["rack"], rack["gpus"], len(rack["hosts"])) == ("az1", "r1", 4, 2)
    assert "GPU 0–2" in answer.content.decode()
    assert f"/cluster/?job={job.pk}" in answer.content.decode()


@pytest.mark.usefixtures("fleet")
def test_a_job_that_starts_shows_which_hosts_are_not_ready_and_why(
    ada: Client, make_job: Make, show: Callable[..., None]
) -> None:
    job = make_job(on={"h1": (0,), "h2": (0,)}, state=Phase.STARTING)
    hindered = GangReport(job.pk, 1, (RankReport(0, RankState.PREPARING),), hindrance="image <b> cannot be pulled")
    show({keys.report("h1"): NodeReport("00000001-00000000", (hindered,))})
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "Not ready: image &lt;b&gt; cannot be pulled" in page
    assert page.count("not ready yet") == 1
    told = ada.get(f"/api/v1/jobs/{job.pk}").json()["allocation"]
    assert [part["unready"] for part in told] == ["image <b> cannot be pulled", ""]


@pytest.mark.usefixtures("fleet")
def test_the_live_state_is_shown_before_the_recorder_has_copied_it(
    ada: Client, make_job: Make, show: Callable[..., None]
) -> None:
    job = make_job()
    show({keys.decision_job(job.pk): JobDecision(phase=Phase.STARTING, attempt=1)})
    assert ada.get(f"/jobs/{job.pk}/").context["phase"] is Phase.STARTING


def test_a_job_that_did_not_reach_the_scheduler_yet_says_so(ada: Client, make_job: Make) -> None:
    job = make_job(live=False)
    assert "It is on its way to the scheduler." in ada.get(f"/jobs/{job.pk}/").content.decode()
