"""Finds below a job's address what no row names: checkpoints that nobody reported, and what was never committed."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from scheduler.checkpoints.layout import MANIFEST, Place, place_of
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.checkpoints.reported import home_of
from scheduler.models import Job
from scheduler.objects import Address, Listed, Objects

log = structlog.get_logger(__name__)

UNREPORTED_AFTER = timedelta(minutes=10)
"""A manifest whose report has not come for so long was never reported: its agent died first."""
ABANDONED_AFTER = timedelta(hours=1)
"""Files without a manifest that nobody has added to for so long, and that a good checkpoint has come after."""


def sweep(objects: Objects, job_id: str, now: datetime) -> None:
    """Enter the checkpoints that nobody reported, and remove what was begun and never committed.

    Raises:
        ObjectsUnavailable: something may be left.
    """
    below = home_of(Job.objects.get(pk=job_id))
    if below is None:
        return
    found = _by_place(objects, below)
    _enter(job_id, found, now)
    good = Checkpoint.objects.filter(job_id=job_id, state=State.GOOD).order_by("-attempt", "-step").first()
    if good is not None:
        _clear(objects, found, (good.attempt, good.step), now)


def _by_place(objects: Objects, below: Address) -> dict[Place, list[Listed]]:
    found: dict[Place, list[Listed]] = {}
    for one in objects.below(below):
        place = place_of(one.key, below)
        if place is not None:
            found.setdefault(place, []).append(one)
    return found


def _enter(job_id: str, found: dict[Place, list[Listed]], now: datetime) -> None:
    known = set(Checkpoint.objects.filter(job_id=job_id).values_list("manifest", flat=True))
    rows = []
    for place, files in found.items():
        committed = [one.modified for one in files if one.key == place.prefix + MANIFEST]
        if committed and str(place.manifest) not in known and committed[0] < now - UNREPORTED_AFTER:
            fields = {"attempt": place.attempt, "step": place.step, "saved_at": committed[0], "look_at": now}
            rows.append(Checkpoint(job_id=job_id, manifest=str(place.manifest), state=State.REPORTED, **fields))
    Checkpoint.objects.bulk_create(rows, ignore_conflicts=True)


def _clear(objects: Objects, found: dict[Place, list[Listed]], good: tuple[int, int], now: datetime) -> None:
    for place, files in found.items():
        abandoned = all(one.modified < now - ABANDONED_AFTER for one in files)
        committed = any(one.key == place.prefix + MANIFEST for one in files)
        if abandoned and not committed and (place.attempt, place.step) < good:
            log.info("removing what was never committed", place=place.prefix, files=len(files))
            objects.delete(place.bucket, [one.key for one in files])
