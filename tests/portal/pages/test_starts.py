"""When jobs start by learned run times: on queue, job and form; and how well that is told, for on-call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from scheduler import clock
from scheduler.core.types import JobSpec
from scheduler.eta import published
from scheduler.eta.models import RunTimeModel, StartTold
from scheduler.eta.published import Etas, Likely
from scheduler.models import Job
from scheduler.picture import picture

pytestmark = pytest.mark.usefixtures("fleet")
Make = Callable[..., Job]
HOUR = 3_600_000


def told(job: str, hours_ago: float, p50_h: float, *, came_h: float | None = None, why: str = "") -> None:
    at = timezone.now() - timedelta(hours=hours_ago)
    StartTold.objects.create(
        job=job,
        team="vision",
        gpus=8,
        at=at,
        p50=at + timedelta(hours=p50_h),
        p90=at + timedelta(hours=2 * p50_h),
        raw_s=p50_h * 3600,
        basis="model",
        why=why,
        came=None if came_h is None else at + timedelta(hours=came_h),
    )


@pytest.fixture
def waits(ada: Client, make_job: Make, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Starts in two hours or so, in five at the latest nine times in ten; it was an hour earlier before."""
    job = make_job("ada", name="waits")
    now_ms = clock.now_ms()
    found = Etas(now_ms, {job.pk: Likely(now_ms + 2 * HOUR + 59_000, now_ms + 5 * HOUR + 59_000, "model", "p0")})
    for place in ("queue", "job"):
        monkeypatch.setattr(f"portal.views.{place}.likely_starts", lambda: found)
    monkeypatch.setattr("portal.api.jobs.eta.likely_starts", lambda: found)
    monkeypatch.setattr("portal.api.jobs.representation.likely_starts", lambda: found)
    told(job.pk, 2, 2)
    told(job.pk, 1, 2, why="p0")
    return job


def test_the_queue_tells_both(waits: Job, ada: Client) -> None:
    page = ada.get("/queue/").content.decode()
    assert "in 2 h 00 min" in page and "90 %: " in page and "in 5 h 00 min" in page


def test_the_job_tells_why_its_start_moved(waits: Job, ada: Client) -> None:
    page = ada.get(f"/jobs/{waits.pk}/").content.decode()
    assert "Likely to start" in page and "nine times in ten by" in page
    assert "a P0 job came" in page and "moved later by 1 h" in page
    assert "At the latest" in page


def test_the_api_tells_what_was_told(waits: Job, ada: Client, eve: Client) -> None:
    answer = ada.get(f"/api/v1/jobs/{waits.pk}/eta").json()
    assert (answer["state"], answer["basis"]) == ("PENDING", "model")
    assert answer["p50"] < answer["p90"]
    assert [one["moved"] for one in answer["told"]] == ["p0", ""]
    detail = ada.get(f"/api/v1/jobs/{waits.pk}").json()
    assert (detail["eta_p50"], detail["eta_p90"]) == (answer["p50"], answer["p90"])
    assert eve.get(f"/api/v1/jobs/{waits.pk}/eta").status_code == 404
    assert ada.get("/api/v1/jobs/nonsense/eta").status_code == 404


def test_a_job_that_runs_is_told_no_start(make_job: Make, ada: Client) -> None:
    job = make_job("ada", on={"h1": (0,)})
    answer = ada.get(f"/api/v1/jobs/{job.pk}/eta").json()
    assert (answer["p50"], answer["p90"], answer["latest"], answer["told"]) == (None, None, None, [])


def test_before_anything_is_scored_the_page_says_so(oncall: Client) -> None:
    page = oncall.get("/starts/").content.decode()
    assert "Nothing has been scored yet" in page and "Nothing has been learned yet" in page


def test_how_well_starts_are_told_is_for_on_call(ada: Client, oncall: Client) -> None:
    assert ada.get("/starts/").status_code == 403
    assert 'href="/starts/"' in oncall.get("/incidents/").content.decode()
    assert 'href="/starts/"' not in ada.get("/incidents/").content.decode()


def test_coverage_that_has_left_its_bounds_is_an_alert(oncall: Client) -> None:
    for at in range(120):
        told(f"j{at}", 30, 1, came_h=1.5 if at < 60 else 9)
    RunTimeModel.objects.create(trained_at=timezone.now(), key="k", jobs=900, loss=0.4, loss_before=0.5, promoted=True)
    page = oncall.get("/starts/").content.decode()
    assert "50\u202f%" in page and "P90 is not what it says" in page and "it was better" in page
    assert "50% of jobs started by the P90 that was told" in oncall.get("/incidents/").content.decode()


def test_jobs_of_a_kind_that_wait_tell_the_form(
    waits: Job,
) -> None:
    now_ms = clock.now_ms()
    known = Etas(now_ms, {waits.pk: Likely(now_ms + HOUR, now_ms + 2 * HOUR, "model")})

    def like(**fields: Any) -> Likely | None:
        spec = {"gpus": waits.gpus, "gpu_type": waits.gpu_type, "priority": waits.priority, **fields}
        asked = JobSpec("preview", "vision", max_runtime_ms=HOUR, submitted_ms=now_ms, **spec)
        with picture().reading() as snapshot:
            return published.alike(snapshot, known, asked, now_ms)

    assert like() == known.jobs[waits.pk]
    assert like(gpu_type="L40S") is None and like(gpus=64) is None
