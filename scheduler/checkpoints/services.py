"""Looks at checkpoints that are due, writes what it found, and tells the scheduler of a newest one that is torn.

Object storage is asked outside of every transaction. A crash between any two steps leaves the checkpoint due again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock

import msgspec
import structlog
from django.db import transaction
from django.db.models import Q

from scheduler import clock, outbox
from scheduler.checkpoints import retention
from scheduler.checkpoints.layout import Place, place_named
from scheduler.checkpoints.models import Checkpoint, State
from scheduler.checkpoints.reported import home_of
from scheduler.checkpoints.sweep import sweep
from scheduler.checkpoints.verify import Torn, Whole, verify
from scheduler.core import types
from scheduler.core.types import TERMINAL
from scheduler.models import Job
from scheduler.objects import Objects, ObjectsUnavailable
from scheduler.services import intent_of
from scheduler.store import codec, keys

log = structlog.get_logger(__name__)

AT_A_TIME = 16
CLAIMED_FOR = timedelta(seconds=120)
"""Nobody else looks at a checkpoint meanwhile, unless whoever looks has died."""
LONGEST_PAUSE_S = 60
MEASURED = 3
"""A job's checkpoints that are looked at for how long its saving takes."""
LEAST_TAKES_MS = 1000
MOST_TORN = 16
"""Torn ones that an intent names."""

_busy = Lock()


def look_at_due(objects: Objects, now: Callable[[], datetime]) -> int:
    """Look at what is due, the oldest first; answers how many were looked at.

    One thread of a process at a time: storage that hangs holds up one and no more. The first time that storage cannot
    say anything, the rest waits too.
    """
    if not _busy.acquire(blocking=False):
        return 0
    try:
        claimed = _claim(now())
        for done, row in enumerate(claimed):
            try:
                _deal_with(objects, row, now)
            except ObjectsUnavailable as error:
                _put_off(row, str(error), now())
                _give_back(claimed[done + 1 :], now())
                return done
        return len(claimed)
    finally:
        _busy.release()


def _claim(now: datetime) -> list[Checkpoint]:
    due = Checkpoint.objects.select_for_update(skip_locked=True).filter(look_at__lte=now).order_by("look_at", "pk")
    with transaction.atomic():
        rows = list(due[:AT_A_TIME])
        Checkpoint.objects.filter(pk__in=[row.pk for row in rows]).update(look_at=now + CLAIMED_FOR)
    return rows


def _give_back(rows: list[Checkpoint], now: datetime) -> None:
    """What was claimed and not come to is due again soon."""
    Checkpoint.objects.filter(pk__in=[row.pk for row in rows]).update(look_at=now + timedelta(seconds=1))


def _put_off(row: Checkpoint, why: str, now: datetime) -> None:
    tries = row.tries + 1
    again = now + timedelta(seconds=min(2**tries, LONGEST_PAUSE_S))
    troubled = row.troubled_at or now
    Checkpoint.objects.filter(pk=row.pk).update(tries=tries, look_at=again, why=why[:300], troubled_at=troubled)
    log.warning("object storage cannot say how a checkpoint is", manifest=row.manifest, why=why, tries=tries)


def _deal_with(objects: Objects, row: Checkpoint, now: Callable[[], datetime]) -> None:
    job = Job.objects.get(pk=row.job_id)
    below = home_of(job)
    place = place_named(row.manifest, below) if below is not None else None
    if place is None:
        _write(row, State.ELSEWHERE, "it does not lie where checkpoints of this job belong", now())
    elif row.state == State.PRUNING:
        retention.remove(objects, place)
        _write(row, State.PRUNED, row.why, now())
    else:
        _look(objects, row, place, now)


def _look(objects: Objects, row: Checkpoint, place: Place, now: Callable[[], datetime]) -> None:
    try:
        whole = verify(objects, place, row.job_id)
    except Torn as torn:
        _write(row, State.TORN, str(torn), now())
        log.error("a checkpoint is torn", manifest=row.manifest, why=str(torn))
        _fall_back(objects, row, str(torn), now)
    else:
        again = row.state == State.GOOD
        _write(row, State.GOOD, "", now(), whole)
        if again:  # its attempt has ended
            sweep(objects, row.job_id, now())
        retention.let_go_of_old(row.job_id, now())
        _measure(row.job_id)


def _write(row: Checkpoint, state: State, why: str, now: datetime, whole: Whole | None = None) -> None:
    fields = {"state": state, "why": why, "checked_at": now, "look_at": None, "tries": 0, "troubled_at": None}
    if whole is not None:
        saved_at = clock.to_datetime(whole.saved_at_ms)
        fields |= {"size": whole.size, "files": whole.files, "took_ms": whole.took_ms, "saved_at": saved_at}
    for name, value in fields.items():
        setattr(row, name, value)
    row.save(update_fields=list(fields))


# --- what follows from it


def _fall_back(objects: Objects, torn: Checkpoint, why: str, now: Callable[[], datetime]) -> None:
    """Tell the scheduler which one to count on instead, unless there is a newer one than the torn one anyway."""
    usable = Checkpoint.objects.filter(job_id=torn.job_id, state__in=[State.REPORTED, State.GOOD])
    if usable.filter(_newer_than(torn)).exists():
        return
    instead = _last_good(objects, torn, now)
    useless = Checkpoint.objects.filter(job_id=torn.job_id, state=State.TORN).order_by("-attempt", "-step")
    if instead is not None:
        useless = useless.filter(_newer_than(instead))
    found = types.Torn(tuple(useless.values_list("manifest", flat=True)[:MOST_TORN]), why=why)
    if instead is not None:
        found = replace(
            found,
            instead=instead.manifest,
            work_ms=instead.work_ms or 0,
            saved_at_ms=clock.to_ms(instead.saved_at),
        )
    _change_intent(torn.job_id, lambda job: _set_torn(job, found))


def _newer_than(row: Checkpoint) -> Q:
    return Q(attempt__gt=row.attempt) | Q(attempt=row.attempt, step__gt=row.step)


def _last_good(objects: Objects, torn: Checkpoint, now: Callable[[], datetime]) -> Checkpoint | None:
    """The newest one that is whole now, whatever it was when somebody last looked."""
    below = home_of(torn.job)
    older = Checkpoint.objects.filter(job_id=torn.job_id, state__in=[State.GOOD, State.REPORTED])
    for row in older.order_by("-attempt", "-step"):
        place = place_named(row.manifest, below) if below is not None else None
        if place is None:
            continue
        try:
            whole = verify(objects, place, row.job_id)
        except Torn as error:
            _write(row, State.TORN, str(error), now())
        else:
            _write(row, State.GOOD, "", now(), whole)
            return row
    return None


def _measure(job_id: str) -> None:
    """Have the scheduler know how long the job's saving takes, where its guess is off by more than a quarter."""
    good = Checkpoint.objects.filter(job_id=job_id, state=State.GOOD, took_ms__isnull=False)
    took = list(good.order_by("-attempt", "-step").values_list("took_ms", flat=True)[:MEASURED])
    if took:
        takes_ms = max(LEAST_TAKES_MS, *(ms for ms in took if ms is not None))
        _change_intent(job_id, lambda job: _set_takes(job, takes_ms))


def _set_torn(job: Job, found: types.Torn) -> bool:
    wanted = msgspec.to_builtins(found)
    changed = bool(job.torn != wanted)
    job.torn = wanted
    return changed


def _set_takes(job: Job, takes_ms: int) -> bool:
    spec = codec.decode(types.JobSpec, json.dumps(job.core_spec).encode())
    if spec.checkpoint is None:
        return False
    takes_ms = min(takes_ms, spec.checkpoint.every_ms // 2)
    if 4 * abs(takes_ms - spec.checkpoint.takes_ms) <= spec.checkpoint.takes_ms:
        return False
    changed = replace(spec, checkpoint=replace(spec.checkpoint, takes_ms=takes_ms))
    job.core_spec = json.loads(codec.encode(changed))
    return True


def _change_intent(job_id: str, change: Callable[[Job], bool]) -> None:
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        if job.state in TERMINAL or not change(job):
            return
        job.intent_version += 1
        job.save(update_fields=["torn", "core_spec", "intent_version"])
        outbox.enqueue(keys.intent_job(job.pk), intent_of(job))
