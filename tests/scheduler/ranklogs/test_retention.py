"""Logs go when their job has ended long ago."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nodes.protocol import LogPiece
from scheduler.core.types import Phase
from scheduler.models import Job, RankLog
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs.archive import Archive, Log
from scheduler.ranklogs.retention import prune
from scheduler.ranklogs.services import Desk
from tests.objects import Faults
from tests.scheduler.ranklogs.conftest import NOW

pytestmark = pytest.mark.django_db
KEEP = timedelta(days=30)


@pytest.fixture
def written(archive: Archive, job: Job) -> Job:
    Desk(archive, 1 << 20, lambda: None).take("n1", [LogPiece(job.pk, 1, 0, 0, b"text")], NOW)
    return job


@pytest.mark.parametrize(
    ("state", "days", "goes"),
    [
        pytest.param(Phase.SUCCEEDED, 31, True, id="ended long ago"),
        pytest.param(Phase.FAILED, 29, False, id="ended lately"),
        pytest.param(Phase.RUNNING, 90, False, id="still runs"),
    ],
)
def test_which_logs_go(written: Job, archive: Archive, state: Phase, days: int, goes: bool) -> None:
    Job.objects.filter(pk=written.pk).update(state=state, ended_at=NOW - timedelta(days=days))
    assert prune(archive, NOW, KEEP) == int(goes)
    assert RankLog.objects.exists() is not goes
    if goes:
        with pytest.raises(Exception, match="NoSuchKey"):
            archive.get(Log(written.pk, 1, 0), (0, 4))


def test_while_storage_is_away_the_index_stays(written: Job, archive: Archive, faults: Faults) -> None:
    Job.objects.filter(pk=written.pk).update(state=Phase.FAILED, ended_at=NOW - KEEP * 2)
    faults.status = 500
    with pytest.raises(ObjectsUnavailable):
        prune(archive, NOW, KEEP)
    assert RankLog.objects.exists()
