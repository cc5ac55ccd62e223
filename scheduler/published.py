"""What one worker makes and keeps in Redis for every process to show: read again once a second, unknown without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

import redis
import structlog

from scheduler import connections

log = structlog.get_logger(__name__)

READ_AGAIN_MS = 1000

T = TypeVar("T")


class Published(Generic[T]):
    """What is kept as JSON under ``key``, which ``read`` makes a ``T`` of; ``unknown`` where nothing can be had."""

    def __init__(self, key: str, read: Callable[[Any], T], unknown: T) -> None:
        self._key = key
        self._read = read
        self._unknown = unknown
        self._lock = Lock()
        self.forget()

    def forget(self) -> None:
        """The next one who asks gets what is in Redis then."""
        self._held, self._again_ms = self._unknown, 0

    def get(self, ticking_ms: Callable[[], int]) -> T:
        """Read at most once in ``READ_AGAIN_MS`` by a process."""
        with self._lock:
            if ticking_ms() >= self._again_ms:
                self._held = self._fetch()
                self._again_ms = ticking_ms() + READ_AGAIN_MS
            return self._held

    def put(self, value: object, kept_s: int) -> None:
        """Raises redis.RedisError."""
        connections.cache().set(self._key, json.dumps(value), ex=kept_s)

    def _fetch(self) -> T:
        try:
            raw = connections.cache().get(self._key)
        except redis.RedisError as error:
            log.warning("what is published cannot be read", key=self._key, error=str(error))
            return self._unknown
        return self._unknown if raw is None else self._read(json.loads(raw))  # type: ignore[arg-type]
