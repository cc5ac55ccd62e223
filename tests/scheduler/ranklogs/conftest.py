"""A job of two hosts with two ranks each, and somewhere to keep what they write."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from quotas.models import QuotaNode
from scheduler.connections import ids
from scheduler.core.types import JobSpec, Phase
from scheduler.models import Job, JobEvent
from scheduler.objects import Objects
from scheduler.ranklogs.archive import Archive
from tests.portal.people import make_tree, make_user
from tests.scheduler.builders import row_of_job

NOW = datetime(2026, 4, 19, tzinfo=UTC)


@pytest.fixture
def archive(objects: Objects) -> Archive:
    return Archive(lambda: objects, f"logs-{uuid4().hex[:12]}")


@pytest.fixture
def job(db: None) -> Job:
    make_tree()
    spec = JobSpec(ids(), "vision", 4, "H100", 2, 3_600_000, 0, name="train")
    team = QuotaNode.objects.get(name="vision")
    row = row_of_job(spec, team, make_user("ada", "vision"), state=Phase.RUNNING.value, attempt=1)
    bind(row, 1)
    return row


def bind(job: Job, attempt: int) -> None:
    detail = {"allocation": [["n1", [0, 1]], ["n2", [4, 5]]]}
    JobEvent.objects.create(
        entry=f"e{attempt}", position=0, revision=attempt, kind="bind", at=NOW, job=job, attempt=attempt, detail=detail
    )
