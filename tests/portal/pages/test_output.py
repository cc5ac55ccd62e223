"""The parts of a job's page that tell of checkpoints and output, and who may see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone

from nodes.protocol import LogPiece
from scheduler import clock, connections
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.connections import ids
from scheduler.core.types import CheckpointSpec, JobDecision, JobIntent, JobSpec, Phase, Slice
from scheduler.models import Job, JobEvent
from scheduler.objects import Objects
from scheduler.ranklogs.archive import Archive
from scheduler.ranklogs.services import Desk
from scheduler.store import keys
from tests.objects import Faults, behind_faults

Make = Callable[..., Job]
SAVES = {"checkpoint": {"every_ms": 600_000, "retain_last_n": 3, "path": "s3://models/run/"}}


@pytest.fixture
def faults(s3_url: str) -> Iterator[Faults]:
    with behind_faults(s3_url) as running:
        yield running


@pytest.fixture
def write(
    make_job: Make, faults: Faults, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> Callable[[bytes], Job]:
    """A job of ada's whose rank 0 has written this."""

    def hand_in(data: bytes, start: int = 0) -> Job:
        objects = Objects(faults.url)
        settings.LOGS_BUCKET = f"logs-{uuid4().hex[:12]}"
        monkeypatch.setattr(connections, "objects", lambda: objects)
        job = make_job("ada", on={"h1": (0,)}, attempt=1)
        bind = {"entry": ids(), "position": 0, "revision": 1, "kind": "bind", "at": timezone.now(), "attempt": 1}
        JobEvent.objects.create(job=job, detail={"allocation": [["h1", [0]]], "gpus": {"h1": [0]}}, **bind)
        desk = Desk(Archive(lambda: objects, settings.LOGS_BUCKET), 1 << 24, lambda: None)
        desk.take("h1", [LogPiece(job.pk, 1, 0, start, data)], timezone.now())
        return job

    return hand_in


def test_which_logs_there_are_and_one_of_them_as_a_file(bob: Client, write: Any) -> None:
    job = write(b"bytes \xff\x00\x1b[31m")
    assert bob.get(f"/jobs/{job.pk}/output/").json() == {"attempts": [{"number": 1, "ranks": [0]}]}
    file = bob.get(f"/jobs/{job.pk}/output/1/0/")
    assert file.content == b"bytes \xff\x00\x1b[31m"
    assert file["Content-Type"] == "application/octet-stream"
    assert file["Content-Disposition"] == f'attachment; filename="{job.pk}-attempt1-rank0.log"'
    assert file["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("place", ["1/7", "2/0", "99999999999999999999/0"])
def test_a_rank_that_has_written_nothing_has_no_file(ada: Client, write: Any, place: str) -> None:
    assert ada.get(f"/jobs/{write(b'x').pk}/output/{place}/").status_code == 404


def test_an_outsider_learns_nothing(eve: Client, client: Client, write: Any) -> None:
    job = write(b"secret")
    for path in (f"/jobs/{job.pk}/output/", f"/jobs/{job.pk}/output/1/0/"):
        assert eve.get(path).status_code == 404
        assert client.get(path).status_code == 302


def test_while_storage_is_away_the_file_is_not_to_be_had(ada: Client, write: Any, faults: Faults) -> None:
    job = write(b"text")
    faults.status = 500
    answer = ada.get(f"/jobs/{job.pk}/output/1/0/")
    assert answer.status_code == 503
    assert b"object storage" in answer.content


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param(State.GOOD, "Verified", id="good"),
        pytest.param(State.TORN, "Torn", id="torn"),
        pytest.param(State.REPORTED, "Not verified yet", id="reported"),
        pytest.param(State.ELSEWHERE, "not verified: the reason", id="elsewhere"),
        pytest.param(State.PRUNED, "Pruned", id="pruned"),
    ],
)
def test_a_checkpoints_state_is_in_words(ada: Client, make_job: Make, state: State, words: str) -> None:
    job = make_job("ada", on={"h1": (0,)}, attempt=2)
    Job.objects.filter(pk=job.pk).update(core_spec=job.core_spec | SAVES)
    saved = timezone.now() - timedelta(minutes=3)
    place = {"manifest": "s3://models/x", "attempt": 1, "step": 1234, "saved_at": saved, "work_ms": 120_000}
    Checkpoint.objects.create(job=job, state=state, why="the reason", size=2_500_000, files=2, took_ms=4000, **place)
    bind = {"entry": ids(), "position": 0, "revision": 2, "kind": "bind", "at": timezone.now(), "attempt": 2}
    JobEvent.objects.create(job=job, detail={"gpus": {"h1": [0]}, "resume_from": "s3://models/x"}, **bind)
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert words in page
    for told in ("1\u202f234", "2.5\u202fMB", "attempt 2", "2 min 00 s"):
        assert told in page


def test_a_job_that_saves_nothing_has_no_table(ada: Client, make_job: Make) -> None:
    job = make_job("ada", on={"h1": (0,)}, attempt=1)
    Job.objects.filter(pk=job.pk).update(core_spec=job.core_spec | {"checkpoint": None})
    assert b'id="checkpoints"' not in ada.get(f"/jobs/{job.pk}/").content


def test_a_torn_one_is_in_the_timeline(ada: Client, make_job: Make) -> None:
    job = make_job("ada", on={"h1": (0,)}, attempt=1)
    fields = {"entry": ids(), "position": 0, "revision": 1, "kind": "torn", "at": timezone.now(), "attempt": 1}
    detail = {"manifest": "s3://m/x", "instead": "s3://m/y", "why": "state is not there"}
    JobEvent.objects.create(job=job, detail=detail, **fields)
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "Its newest checkpoint is torn (state is not there): the one before it counts" in page


# --- on call


def test_checkpoints_that_cannot_be_looked_at_are_an_alert(oncall: Client, make_job: Make) -> None:
    job = make_job("ada", on={"h1": (0,)}, attempt=1)
    place = {"manifest": "s3://models/x", "attempt": 1, "step": 1, "saved_at": timezone.now()}
    row = Checkpoint.objects.create(job=job, state=State.REPORTED, tries=4, troubled_at=timezone.now(), **place)
    assert "Object storage does not tell" not in oncall.get("/incidents/").content.decode(), "a moment is no incident"
    Checkpoint.objects.filter(pk=row.pk).update(troubled_at=timezone.now() - timedelta(minutes=2))
    page = oncall.get("/incidents/").content.decode()
    assert "Object storage does not tell how checkpoints of 1 job are" in page


def test_a_job_that_has_not_saved_for_long_is_an_alert(oncall: Client, make_job: Make, show: Any) -> None:
    job = make_job("ada", on={"h1": (0,)}, attempt=1)
    now_ms = clock.now_ms()
    saves = CheckpointSpec(60_000, 1_000, "s3://models/run/")
    spec = JobSpec(job.pk, "vision", 1, "H100", 2, 3_600_000, now_ms, checkpoint=saves)
    late = JobDecision(Phase.RUNNING, 1, allocation=(Slice("h1", (0,)),), started_ms=now_ms - 200_000, gpu_type="H100")
    show({keys.intent_job(job.pk): JobIntent(spec, 2), keys.decision_job(job.pk): late})
    assert "1 job has not saved for 3 intervals and more" in oncall.get("/incidents/").content.decode()
