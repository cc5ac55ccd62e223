"""Whose logs somebody looks at: Redis remembers it for half a minute, and agents then ship at once what is new."""

from __future__ import annotations

from collections.abc import Iterable

import redis
import structlog

from scheduler import connections

log = structlog.get_logger(__name__)

REMEMBERED_S = 30
_KEY = "gangway:watched:{}"


def watch(job: str) -> None:
    """Somebody looks at the job's logs now. Without Redis they only come more slowly."""
    try:
        connections.cache().set(_KEY.format(job), "1", ex=REMEMBERED_S)
    except redis.RedisError as error:
        log.warning("nobody learns that a log is looked at", job=job, error=str(error))


def watched(jobs: Iterable[str]) -> set[str]:
    """Those of the jobs at whose logs somebody looks."""
    asked = sorted(set(jobs))
    if not asked:
        return set()
    try:
        found = connections.cache().mget([_KEY.format(job) for job in asked])
    except redis.RedisError as error:
        log.warning("whether logs are looked at is not known", error=str(error))
        return set()
    return {job for job, mark in zip(asked, found, strict=True) if mark is not None}
