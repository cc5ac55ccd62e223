"""What lies below a job's address and no row names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.checkpoints.models import State
from scheduler.checkpoints.reported import note
from scheduler.checkpoints.sweep import sweep
from scheduler.core.types import Event, EventKind, Phase
from scheduler.objects import Address
from tests.scheduler.checkpoints.conftest import START_MS, Shelf

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def now(shelf: Shelf) -> None:
    """Storage dates its objects by the real clock."""
    shelf.now = timezone.now()


def test_a_checkpoint_that_nobody_reported_is_found_when_the_attempt_is_over(shelf: Shelf) -> None:
    shelf.report(shelf.save(10))
    shelf.save(20)
    shelf.look()
    assert shelf.states() == {"1-10": State.GOOD}
    release = Event(EventKind.RELEASE, START_MS, shelf.job.pk, None, 1, {"phase": Phase.SUCCEEDED.value})
    note([release], {shelf.job.pk: shelf.job}, shelf.now)
    shelf.look(3600)
    assert shelf.states() == {"1-20": State.GOOD, "1-10": State.GOOD}
    assert shelf.row(20).work_ms is None


def test_one_whose_report_may_still_come_is_left_alone(shelf: Shelf) -> None:
    shelf.save(20)
    sweep(shelf.objects, shelf.job.pk, shelf.now)
    assert shelf.states() == {}


@pytest.mark.parametrize(
    ("step", "hours", "stays"),
    [
        pytest.param(10, 2.0, False, id="begun long ago and left behind"),
        pytest.param(10, 0.5, True, id="begun a while ago: it may still be written"),
        pytest.param(30, 2.0, True, id="newer than the newest good one"),
    ],
)
def test_what_was_never_committed_goes_in_time(shelf: Shelf, step: int, hours: float, stays: bool) -> None:
    shelf.report(shelf.save(20))
    shelf.look()
    half = shelf.place(step)
    shelf.objects.put(half.file("state"), b"half")
    shelf.objects.put(Address(shelf.below.bucket, f"{shelf.below.key}notes.txt"), b"not ours")
    sweep(shelf.objects, shelf.job.pk, shelf.now + timedelta(hours=hours))
    assert (f"a00001-s{step:012}/state" in shelf.left()) is stays
    assert "notes.txt" in shelf.left()
