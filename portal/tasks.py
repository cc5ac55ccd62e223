"""The portal's Celery tasks."""

from __future__ import annotations

import structlog
from celery import shared_task
from redis import RedisError

from portal import quota_foresight

log = structlog.get_logger(__name__)


@shared_task
def preview_quota(ticket: str) -> None:
    """Work out what a drafted quota tree would do. Takes up to minutes of a core: on a queue of its own."""
    try:
        quota_foresight.work(ticket)
    except RedisError as error:
        log.warning("a quota preview broke off", ticket=ticket, error=str(error))
