"""The newest telemetry of every node, in Redis for whoever shows it. Nothing depends on it: it is soon read anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

import redis

from nodes.protocol import ProtocolError, decode, encode
from nodes.telemetry import Telemetry

KEPT_S = 60
"""Readings of a node that was not heard for so long are none any more: an idle agent tells them each ten seconds."""
_PREFIX = "gangway:telemetry:"


class Readings:
    """What agents told this process, sent on now and then, the newest of each node. Safe in threads."""

    def __init__(self, cache: Callable[[], redis.Redis]) -> None:
        self._cache = cache
        self._lock = Lock()
        self._fresh: dict[str, Telemetry] = {}

    def note(self, node: str, telemetry: Telemetry) -> None:
        with self._lock:
            self._fresh[node] = telemetry

    def send(self) -> int:
        """Send on what has come since; answers of how many nodes.

        Raises:
            redis.RedisError: it is lost. The next telemetry of each node is on its way.
        """
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        if fresh:
            pipeline = self._cache().pipeline(transaction=False)
            for node, telemetry in fresh.items():
                pipeline.set(_PREFIX + node, encode(telemetry), ex=KEPT_S)
            pipeline.execute()
        return len(fresh)


def read(cache: redis.Redis, nodes: Iterable[str]) -> dict[str, Telemetry]:
    """The newest readings of these nodes; those that are not known are left out.

    Raises:
        redis.RedisError: Redis is away.
    """
    names = list(nodes)
    found: dict[str, Telemetry] = {}
    for name, raw in zip(names, cache.mget([_PREFIX + name for name in names]) if names else (), strict=True):
        if isinstance(raw, bytes):
            try:
                found[name] = decode(Telemetry, raw)
            except ProtocolError:
                continue  # what another version wrote: it is written over within seconds
    return found
