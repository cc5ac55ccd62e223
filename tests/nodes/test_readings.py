"""Telemetry on its way through Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from nodes import readings
from nodes.readings import Readings
from nodes.telemetry import GpuReading, Telemetry

FIRST, SECOND = Telemetry(1, "nvml", (GpuReading(0, 5.0),)), Telemetry(2, "nvml", (GpuReading(0, 6.0),))


@pytest.fixture
def cache(redis_url: str) -> Iterator[redis.Redis]:
    found = redis.Redis.from_url(redis_url)
    yield found
    found.delete(*(f"gangway:telemetry:{name}" for name in ("n1", "n2", "garbled")))
    found.close()


def test_the_newest_of_each_node_is_passed_on_and_kept_for_a_while(cache: redis.Redis) -> None:
    passed = Readings(lambda: cache)
    passed.note("n1", FIRST)
    passed.note("n1", SECOND)
    passed.note("n2", FIRST)
    assert passed.send() == 2
    assert readings.read(cache, ["n1", "n2", "n3"]) == {"n1": SECOND, "n2": FIRST}
    assert 0 < int(cache.ttl("gangway:telemetry:n1")) <= readings.KEPT_S  # type: ignore[arg-type]
    assert passed.send() == 0


def test_what_cannot_be_read_counts_as_none(cache: redis.Redis) -> None:
    cache.set("gangway:telemetry:garbled", b"{")
    assert readings.read(cache, ["garbled"]) == {}
    assert readings.read(cache, []) == {}


def test_what_redis_does_not_take_is_lost_and_the_next_gets_through(cache: redis.Redis) -> None:
    away = redis.Redis(port=1, socket_connect_timeout=0.1)
    found = [away, cache]
    passed = Readings(lambda: found.pop(0))
    passed.note("n1", FIRST)
    with pytest.raises(redis.RedisError):
        passed.send()
    assert passed.send() == 0
    passed.note("n1", SECOND)
    passed.send()
    assert readings.read(cache, ["n1"]) == {"n1": SECOND}
