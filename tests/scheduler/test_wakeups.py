from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from kombu.exceptions import OperationalError

from portal.celery import app
from scheduler import connections
from scheduler.wakeups import Wakeup


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: names.append(name))
    return names


@pytest.fixture
def wakeup(redis_url: str) -> Iterator[Wakeup]:
    wakeup = Wakeup("tests.work")
    wakeup.clear()
    yield wakeup
    wakeup.clear()


def test_one_message_waits_however_often_it_is_rung(wakeup: Wakeup, sent: list[str]) -> None:
    assert [wakeup.ring() for _ in range(5)] == [True, False, False, False, False]
    assert sent == ["tests.work"]


def test_what_happens_after_the_flag_was_cleared_is_a_new_message(wakeup: Wakeup, sent: list[str]) -> None:
    """The worker clears, then reads: a change after its reading must wake it once more."""
    wakeup.ring()
    wakeup.clear()
    assert wakeup.ring()
    assert len(sent) == 2


def test_a_flag_whose_message_was_lost_ends_by_itself(wakeup: Wakeup, sent: list[str]) -> None:
    wakeup.ring()
    left = connections.cache().ttl("gangway:waiting:tests.work")
    assert 0 < left <= 3


@pytest.mark.parametrize("error", [redis.ConnectionError, redis.TimeoutError])
def test_redis_away_is_no_error(wakeup: Wakeup, monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    class Away:
        def __getattr__(self, verb: str) -> Any:
            raise error("away")

    monkeypatch.setattr(connections, "cache", Away)
    assert not wakeup.ring()
    wakeup.clear()


def test_a_message_that_could_not_be_sent_does_not_keep_others_from_it(
    wakeup: Wakeup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(app, "send_task", refuse)
    assert not wakeup.ring()
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    assert wakeup.ring()
