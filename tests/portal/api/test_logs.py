"""What the REST interface tells of a job's logs and checkpoints, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.utils import timezone

from nodes.protocol import LogPiece
from quotas.models import QuotaNode
from scheduler import connections
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.connections import ids
from scheduler.core.types import JobSpec, Phase
from scheduler.models import Job, JobEvent
from scheduler.objects import Objects
from scheduler.ranklogs import watching
from scheduler.ranklogs.archive import Archive
from scheduler.ranklogs.services import Desk
from tests.objects import Faults, behind_faults
from tests.portal.api.conftest import Api, problem
from tests.scheduler.builders import row_of_job


@pytest.fixture
def faults(s3_url: str) -> Iterator[Faults]:
    with behind_faults(s3_url) as running:
        yield running


@pytest.fixture
def archive(faults: Faults, monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> Archive:
    """Where this process finds logs."""
    objects = Objects(faults.url)
    settings.LOGS_BUCKET = f"logs-{uuid4().hex[:12]}"
    monkeypatch.setattr(connections, "objects", lambda: objects)
    return Archive(lambda: objects, settings.LOGS_BUCKET)


@pytest.fixture
def job(ada: Api) -> Job:
    """A job of vision's, of one rank, in its second attempt."""
    assert ada.user is not None
    spec = JobSpec(ids(), "vision", 1, "H100", 2, 3_600_000, 0, name="train")
    row = row_of_job(spec, QuotaNode.objects.get(name="vision"), ada.user, state=Phase.RUNNING.value, attempt=2)
    for attempt in (1, 2):
        event(row, "bind", attempt, allocation=[["n1", [0]]])
    return row


def event(job: Job, kind: str, attempt: int, minutes_ago: float = 60, **detail: Any) -> None:
    at = timezone.now() - timedelta(minutes=minutes_ago)
    entry = {"entry": ids(), "position": 0, "revision": attempt, "kind": kind, "at": at}
    JobEvent.objects.create(job=job, attempt=attempt, detail=detail, **entry)


@pytest.fixture
def write(archive: Archive, job: Job) -> Callable[..., None]:
    desk = Desk(archive, 1 << 24, lambda: None)

    def hand_in(data: bytes, start: int = 0, attempt: int = 1, over: bool = False) -> None:
        desk.take("n1", [LogPiece(job.pk, attempt, 0, start, data, over)], timezone.now())

    return hand_in


# --- logs


def test_a_log_is_read_to_its_end_part_by_part(bob: Api, job: Job, write: Any) -> None:
    write("Grüße\x1b[31mred\x1b[0m".encode() + b"\xff\x00", over=True)
    first = bob.get(f"jobs/{job.pk}/logs", {"rank": 0, "limit": 16}).json()
    assert (first["attempt"], first["offset"], first["size"], first["over"]) == (1, 0, 21, True)
    second = bob.get(f"jobs/{job.pk}/logs", {"rank": 0, "offset": first["next_offset"]}).json()
    assert first["text"] + second["text"] == "Grüße\x1b[31mred\x1b[0m\ufffd\x00"
    last = bob.get(f"jobs/{job.pk}/logs", {"offset": second["next_offset"]}).json()
    assert (last["text"], last["next_offset"]) == ("", 21)


def test_the_newest_attempt_that_has_written_is_told_unless_one_is_named(ada: Api, job: Job, write: Any) -> None:
    write(b"first")
    assert ada.get(f"jobs/{job.pk}/logs").json()["text"] == "first"
    write(b"", attempt=2)
    assert ada.get(f"jobs/{job.pk}/logs").json()["text"] == "first", "it has only begun"
    write(b"second", attempt=2)
    assert ada.get(f"jobs/{job.pk}/logs").json()["text"] == "second"
    assert ada.get(f"jobs/{job.pk}/logs", {"attempt": 1}).json()["text"] == "first"


def test_the_tail_and_what_is_missing_before_it(ada: Api, job: Job, write: Any) -> None:
    write(b"head")
    write(b"0123456789", start=100)
    assert ada.get(f"jobs/{job.pk}/logs", {"tail": 4}).json()["text"] == "6789"
    found = ada.get(f"jobs/{job.pk}/logs", {"offset": 4}).json()
    assert (found["offset"], found["skipped"], found["text"]) == (100, 96, "0123456789")


def test_a_rank_that_has_written_nothing_is_404(ada: Api, job: Job) -> None:
    assert "Rank 3" in problem(ada.get(f"jobs/{job.pk}/logs", {"rank": 3}), 404)["detail"]


def test_an_outsider_sees_no_log_and_no_checkpoint(eve: Api, nobody: Api, job: Job, write: Any) -> None:
    write(b"secret")
    for path in (f"jobs/{job.pk}/logs", f"jobs/{job.pk}/checkpoints"):
        problem(eve.get(path), 404)
        problem(nobody.get(path), 401)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        pytest.param({"rank": "-1"}, "rank", id="a negative rank"),
        pytest.param({"rank": "x"}, "rank", id="no number"),
        pytest.param({"attempt": "0"}, "attempt", id="attempt 0"),
        pytest.param({"offset": "1e3"}, "offset", id="no offset"),
        pytest.param({"offset": "9" * 16}, "offset", id="an endless offset"),
        pytest.param({"tail": "0"}, "tail", id="no tail"),
        pytest.param({"limit": "1"}, "limit", id="too small a part"),
    ],
)
def test_what_is_asked_wrongly_is_told_by_field(ada: Api, job: Job, query: dict[str, str], field: str) -> None:
    told = problem(ada.get(f"jobs/{job.pk}/logs", query), 400)
    assert told["errors"][0]["field"] == field
    assert told["errors"][0]["remedy"]


@pytest.mark.parametrize("fault", [{"status": 500}, {"gone": True}], ids=["answers 500", "hangs up"])
def test_while_storage_is_away_it_says_so(
    ada: Api, job: Job, write: Any, faults: Faults, fault: dict[str, Any]
) -> None:
    write(b"text")
    for name, value in fault.items():
        setattr(faults, name, value)
    response = ada.get(f"jobs/{job.pk}/logs")
    assert "object storage" in problem(response, 503)["detail"]
    assert response["Retry-After"] == "5"


def test_whoever_reads_makes_agents_ship_at_once(ada: Api, job: Job, write: Any) -> None:
    assert watching.watched([job.pk]) == set()
    write(b"text")
    ada.get(f"jobs/{job.pk}/logs")
    assert watching.watched([job.pk, "other"]) == {job.pk}


# --- checkpoints


def test_checkpoints_tell_their_state_and_who_resumed_from_them(bob: Api, job: Job) -> None:
    now = timezone.now()
    good, torn = "s3://models/good", "s3://models/torn"
    for minutes, manifest, state in ((5, torn, State.TORN), (15, good, State.GOOD)):
        at = now - timedelta(minutes=minutes)
        fields = {"attempt": 1, "step": 100 - minutes, "saved_at": at, "work_ms": 60_000}
        Checkpoint.objects.create(job=job, manifest=manifest, state=state, why="x" * (state == State.TORN), **fields)
    event(job, "checkpoint", 1, minutes_ago=10, work_ms=30_000)
    event(job, "bind", 3, minutes_ago=1, allocation=[["n1", [0]]], resume_from=good)
    found = bob.get(f"jobs/{job.pk}/checkpoints").json()
    assert [(one["state"], one["resumed_by"]) for one in found["items"]] == [
        ("torn", []),
        ("unnamed", []),
        ("good", [3]),
    ]
    assert found["newest_good"] == good
    assert (found["items"][0]["why"], found["items"][0]["step"], found["items"][0]["work_seconds"]) == ("x", 95, 60.0)


def test_a_job_without_checkpoints_has_an_empty_list(ada: Api, job: Job) -> None:
    assert ada.get(f"jobs/{job.pk}/checkpoints").json() == {"items": [], "newest_good": None}
