"""Versions of the model of run times: trained on what is known, kept in object storage, promoted where they are better.

A version goes into service only if its loss on the newest week, which it has not seen, is below that of what is in
service: the version before it, or the ladder where there was none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import fmean

import structlog
from django.conf import settings

from scheduler.eta import history
from scheduler.eta.ladder import Ladder
from scheduler.eta.models import RunTimeModel
from scheduler.eta.past import Past, Ran, told_at_submission
from scheduler.eta.quantiles import Length
from scheduler.eta.runtimes import CannotLearn, RunTimes, TooFew, loaded, log_pinball, train
from scheduler.objects import Address, NoSuchObject, Objects, ObjectsUnavailable

log = structlog.get_logger(__name__)

WEEK = timedelta(weeks=1)
JUDGED = 0.2
"""The newest week, or this share of the newest jobs where it holds more than that: something has to be learned from."""
LEAST_JUDGED = 40
KEPT = 10
MOST_BYTES = 64_000_000


def train_version(objects: Objects, now: datetime) -> RunTimeModel | None:
    """Train a version and keep it; None where there is too little to learn from.

    Raises:
        CannotLearn: the library is not there.
        ObjectsUnavailable: nothing was kept.
    """
    known = history.ran(now)
    old, new = parted(known, now)
    try:
        model = train(old)
    except TooFew as error:
        log.info("no model of run times is trained", why=str(error))
        return None
    if sum(one.ended_s is not None for one in new) < LEAST_JUDGED:
        log.info("no model of run times is trained", why="too few new jobs have ended to judge it by")
        return None
    serving = in_service(objects)
    mine = loss(model, old, new)
    before = loss(serving if serving is not None else Ladder(old), old, new)
    key = f"run-times/{now:%Y%m%dT%H%M%S}.json"
    objects.make_bucket(settings.MODELS_BUCKET)
    objects.put(Address(settings.MODELS_BUCKET, key), model.dumped())
    row = RunTimeModel.objects.create(
        trained_at=now, key=key, jobs=model.jobs, loss=mine, loss_before=before, promoted=mine < before
    )
    log.info("a model of run times was trained", jobs=model.jobs, loss=mine, before=before, promoted=row.promoted)
    _forget_old(objects)
    return row


def newest() -> RunTimeModel | None:
    """The version in service."""
    return RunTimeModel.objects.filter(promoted=True).order_by("-pk").first()


def in_service(objects: Objects) -> RunTimes | None:
    """The model in service; None where there is none, or where it cannot be read.

    Raises:
        CannotLearn, ObjectsUnavailable
    """
    row = newest()
    if row is None:
        return None
    try:
        return loaded(objects.get(Address(settings.MODELS_BUCKET, row.key), MOST_BYTES))
    except (NoSuchObject, ValueError) as error:
        log.warning("the model of run times in service cannot be read", key=row.key, error=str(error))
        return None


def teller(objects: Objects, known: Sequence[Ran]) -> tuple[RunTimes | Ladder, str]:
    """Who tells run times now, and what that is called: the model in service, else the ladder."""
    try:
        model = in_service(objects)
    except (CannotLearn, ObjectsUnavailable) as error:
        log.warning("run times are told without a model", why=str(error))
        model = None
    return (model, "model") if model is not None else (Ladder(known), "likes")


def parted(known: Sequence[Ran], now: datetime) -> tuple[list[Ran], list[Ran]]:
    """What a version is trained on, as it was known then, and the newest week, by which it is judged."""
    if not known:
        return [], []
    at_s = max((now - WEEK).timestamp(), known[int(len(known) * (1 - JUDGED))].wanted.submitted_s)
    old = [_as_of(one, at_s) for one in known if one.wanted.submitted_s < at_s]
    return old, [one for one in known if one.wanted.submitted_s >= at_s]


def _as_of(one: Ran, at_s: float) -> Ran:
    if one.ended_s is None or one.ended_s <= at_s:
        return one
    return Ran(one.wanted, max(0.0, one.length_s - (one.ended_s - at_s)), None)


def loss(teller: RunTimes | Ladder, old: Sequence[Ran], new: Sequence[Ran]) -> float:
    """The mean loss at P50 and P90 on the new ones that ended, each told by what was known when it came."""
    fresh = {one.wanted.job for one in new if one.ended_s is not None}
    actual: list[float] = []
    told: list[Length] = []
    rows: list[list[float]] = []
    limits: list[float] = []
    for one, past in told_at_submission([*old, *new]):
        if one.wanted.job in fresh:
            actual.append(one.length_s)
            if isinstance(teller, Ladder):
                told += teller.lengths([one.wanted], past)
            else:
                rows.append(teller.row(one.wanted, past))
                limits.append(one.wanted.limit_s)
    if isinstance(teller, RunTimes):
        told = teller.of_rows(rows, limits)
    return fmean(log_pinball(actual, [length.at(level) for length in told], level) for level in (0.5, 0.9))


def past_of(known: Sequence[Ran]) -> Past:
    """What is known of all that ended."""
    past = Past()
    for one in sorted((one for one in known if one.ended_s is not None), key=lambda one: one.ended_s or 0.0):
        past.add(one)
    return past


def _forget_old(objects: Objects) -> None:
    """Keep the newest versions, and the one in service."""
    serving = newest()
    old = [row for row in RunTimeModel.objects.order_by("-pk")[KEPT:] if serving is None or row.pk != serving.pk]
    if old:
        objects.delete(settings.MODELS_BUCKET, [row.key for row in old])
        RunTimeModel.objects.filter(pk__in=[row.pk for row in old]).delete()
