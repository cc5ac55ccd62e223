"""Which checkpoints may go, and their removal. The newest good one never does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from scheduler.checkpoints.layout import Place
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.models import Job
from scheduler.objects import Address, Objects

KEEP_BY_DEFAULT = 3


class Aged(Protocol):
    """What is asked of a checkpoint."""

    attempt: int
    step: int
    state: str


def spare(newest_first: Sequence[Aged], keep: int) -> list[int]:
    """Which of a job's checkpoints may go, by their place: good ones beyond the newest ``keep``, and torn ones that a
    good one has come after. Pure."""
    good, found = 0, []
    for at, one in enumerate(newest_first):
        if one.state == State.GOOD:
            good += 1
            if good > max(1, keep):
                found.append(at)
        elif one.state == State.TORN and good:
            found.append(at)
    return found


def let_go_of_old(job_id: str, now: datetime) -> int:
    """Mark what may go for removal; answers how many."""
    saves = Job.objects.values_list("core_spec", flat=True).get(pk=job_id).get("checkpoint") or {}
    known = Checkpoint.objects.filter(job_id=job_id, state__in=[State.GOOD, State.TORN])
    rows = list(known.order_by("-attempt", "-step"))
    going = [rows[at].pk for at in spare(rows, int(saves.get("retain_last_n") or KEEP_BY_DEFAULT))]
    # Its turn comes after what is reported: looking is more urgent than tidying.
    due = now + timedelta(seconds=1)
    return Checkpoint.objects.filter(pk__in=going).update(state=State.PRUNING, look_at=due)


def remove(objects: Objects, place: Place) -> None:
    """Remove the checkpoint, its manifest first: half of it is then no checkpoint. Asked again, the rest goes.

    Raises:
        ObjectsUnavailable: something is left.
    """
    objects.delete(place.bucket, [place.manifest.key])
    rest = [one.key for one in objects.below(Address(place.bucket, place.prefix))]
    objects.delete(place.bucket, rest)
