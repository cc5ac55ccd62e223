"""The scheduler's Celery tasks. Each may be delivered zero, one or ten times with the same end state."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

import structlog
from celery import shared_task
from celery.signals import worker_shutdown
from django.conf import settings
from redis import RedisError

from quotas.ledger import rollup
from scheduler import (
    clock,
    connections,
    counts,
    expected,
    intents,
    outbox,
    past,
    quota_edits,
    recorder,
    reservations,
    runtime,
    wakeups,
)
from scheduler.checkpoints import services as checkpoints
from scheduler.eta import refreshing, scoring, versions
from scheduler.eta.runtimes import CannotLearn
from scheduler.objects import ObjectsUnavailable
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.ranklogs import retention as ranklogs
from scheduler.ranklogs.archive import Archive
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)


@worker_shutdown.connect
def resign(**_: object) -> None:
    """A worker that ends in good order leaves the lead to the next one at once."""
    runtime.resign_this_process()
    connections.close()


def poke() -> None:
    """Something changed that the scheduler should look at now: wake the tick, unless one is waiting already."""
    wakeups.tick.ring()


@shared_task
def tick() -> None:
    """Decide what can be decided now, if this process leads; else return at once."""
    done = runtime.this_process().step(clock.now_ms(), leading=wakeups.tick.clear)
    if done.journalled:
        wakeups.recording.ring()
    if done.again:
        wakeups.tick.ring()


@shared_task
def repair_fragmentation() -> None:
    """Where the policy is to move jobs so that gangs fit, move those whose time has come, if this process leads."""
    if runtime.this_process().step(clock.now_ms(), repair=True).journalled:
        wakeups.recording.ring()


@shared_task
def record() -> None:
    """Copy the journal into PostgreSQL, and what came in meanwhile."""
    wakeups.recording.clear()
    try:
        while recorder.record(connections.store(), clock.now_ms()):
            pass
    except StoreUnavailable as error:
        log.warning("the journal waits: the store is away", error=str(error))


@shared_task
def sweep_outbox() -> None:
    """Deliver the intents that a crash or an outage left in the outbox."""
    try:
        delivered = outbox.sweep(connections.store())
    except StoreUnavailable as error:
        log.warning("the outbox waits: the store is away", error=str(error))
    else:
        if delivered:
            log.info("delivered what was left in the outbox", rows=delivered)
            poke()


@shared_task
def fold_counts() -> None:
    """Keep the table behind the counts of jobs small."""
    counts.fold()


@shared_task
def roll_up_usage() -> None:
    """Bring the sums of the ledger by day up to its last line."""
    while rollup.roll_up():
        pass


@shared_task
def look_at_checkpoints() -> None:
    """See whether the checkpoints that were reported are whole, and remove those that may go."""
    wakeups.looking.clear()
    while checkpoints.look_at_due(connections.objects(), lambda: clock.to_datetime(clock.now_ms())):
        pass


@shared_task
def prune_logs() -> None:
    """Remove the logs of jobs that ended long ago."""
    archive = Archive(connections.objects, settings.LOGS_BUCKET)
    keep = timedelta(days=settings.LOGS_KEPT_DAYS)
    try:
        while ranklogs.prune(archive, clock.to_datetime(clock.now_ms()), keep):
            pass
    except ObjectsUnavailable as error:
        log.warning("old logs stay: object storage is away", error=str(error))


@shared_task
def keep_frames() -> None:
    """Keep frames of the past, from which the map of an earlier moment is told."""
    past.keep_frames(clock.to_datetime(clock.now_ms()))


@shared_task
def let_go() -> None:
    """Take maintenance windows and reservations that are over out of the store."""
    now = clock.to_datetime(clock.now_ms())
    windows, booked = intents.close_maintenance(now), reservations.close(now)
    if windows or booked:
        log.info("let go of what is over", hosts_with_maintenance=windows, reservations=booked)


@shared_task
def carry_out_quota_edits() -> None:
    """Begin and end the edits of the quota tree whose time has come."""
    quota_edits.carry_out_due(clock.to_datetime(clock.now_ms()))


@shared_task
def refresh_forecast() -> None:
    """Tell anew when each waiting job is expected to start. Takes seconds of a core: not for the leader's process."""
    try:
        expected.refresh(picture(), live_policy(), clock.now_ms(), lambda: int(monotonic() * 1000))
    except RedisError as error:
        log.warning("no forecast was made", error=str(error))


@shared_task
def refresh_etas() -> None:
    """Tell anew when waiting jobs will start, by learned run times. Takes seconds of a core."""
    try:
        refreshing.teller().refresh(picture(), live_policy(), clock.now_ms(), lambda: int(monotonic() * 1000))
    except RedisError as error:
        log.warning("no starts were told", error=str(error))


@shared_task
def train_run_times() -> None:
    """Train a version of the model of run times, and have it used if it is better than what is."""
    try:
        versions.train_version(connections.objects(), clock.to_datetime(clock.now_ms()))
    except (CannotLearn, ObjectsUnavailable) as error:
        log.warning("no model of run times was trained", why=str(error))


@shared_task
def score_etas() -> None:
    """Hold what was told of starts against what came."""
    scoring.score(clock.to_datetime(clock.now_ms()))
