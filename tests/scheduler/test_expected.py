"""The forecast of starts: made from the picture, kept in Redis, unknown without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from scheduler import connections, expected
from scheduler.core.types import JobDecision, JobIntent, JobSpec, NodeIntent, Phase, Policy, Slice
from scheduler.expected import KEY, LOCK, Expected
from scheduler.picture import Picture
from scheduler.published import READ_AGAIN_MS
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore

NOW, HOUR = 1_767_225_600_000, 3_600_000


@pytest.fixture
def cache(redis_url: str, settings: Any) -> Iterator[redis.Redis]:
    settings.REDIS_URL = redis_url
    connections.close()
    expected.PUBLISHED.forget()
    found = connections.cache()
    found.delete(KEY, LOCK)
    yield found
    found.delete(KEY, LOCK)
    connections.close()


@pytest.fixture
def picture() -> Iterator[Picture]:
    """One host, held by ``runs`` for an hour more; ``waits`` wants it, ``never`` is held by its owner."""
    store = MemoryStore(lambda: NOW)
    spec = JobSpec("runs", "vision", 8, "H100", 2, HOUR, NOW)
    decision = JobDecision(Phase.RUNNING, 1, 1, (Slice("n1", tuple(range(8))),), "H100", bound_ms=NOW, started_ms=NOW)
    records: dict[str, Any] = {
        keys.intent_node("n1"): NodeIntent("n1", "az1", "r1", "H100"),
        keys.intent_job("runs"): JobIntent(spec),
        keys.decision_job("runs"): decision,
        keys.intent_job("waits"): JobIntent(JobSpec("waits", "vision", 8, "H100", 2, HOUR, NOW)),
        keys.intent_job("never"): JobIntent(JobSpec("never", "vision", 8, "H100", 2, HOUR, NOW), hold=True),
    }
    done = store.commit([], [*(Put(k, codec.encode(v)) for k, v in records.items()), Put(keys.alive("n1"), b"boot")])
    shown = Picture(lambda: store, lambda: NOW).start()
    assert shown.wait_for(done.revision, 10)
    yield shown
    shown.stop()


def test_a_forecast_is_read_as_it_was_made(cache: redis.Redis, picture: Picture) -> None:
    made = expected.refresh(picture, Policy(), NOW, lambda: 0)
    assert made is not None
    assert made.starts == {"waits": pytest.approx(NOW + HOUR, abs=HOUR // 50)}
    read = expected.expected(lambda: 0)
    assert read == made
    assert read.start_ms("never", NOW) is None
    assert 0 < cache.ttl(KEY) <= expected.KEPT_S


def test_an_expected_start_is_never_in_the_past() -> None:
    assert Expected(starts={"a": NOW}).start_ms("a", NOW + 5) == NOW + 5


def test_one_worker_makes_it_at_a_time(cache: redis.Redis, picture: Picture) -> None:
    cache.set(LOCK, "1")
    assert expected.refresh(picture, Policy(), NOW, lambda: 0) is None
    cache.delete(LOCK)
    assert expected.refresh(picture, Policy(), NOW, lambda: 0) is not None
    assert cache.get(LOCK) is None


def test_without_a_forecast_starts_are_unknown(cache: redis.Redis) -> None:
    assert expected.expected(lambda: 0) == Expected()


def test_without_redis_starts_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> redis.Redis:
        raise redis.ConnectionError("away")

    expected.PUBLISHED.forget()
    monkeypatch.setattr(connections, "cache", away)
    assert expected.expected(lambda: 0) == Expected()


def test_it_is_read_again_after_a_second(cache: redis.Redis, picture: Picture) -> None:
    assert not expected.expected(lambda: 0).starts
    expected.refresh(picture, Policy(), NOW, lambda: 0)
    assert not expected.expected(lambda: READ_AGAIN_MS - 1).starts
    assert expected.expected(lambda: READ_AGAIN_MS).starts
