"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from django.test import Client

from portal.api import health
from scheduler.store import keys


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_asked", {})


def test_a_living_process_says_so() -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}


@pytest.mark.usefixtures("postgres_url", "etcd_url", "redis_url", "s3_url")
def test_ready_with_every_store() -> None:
    response = Client().get("/readyz")
    assert response.json() == {
        "status": "ready",
        "stores": {"postgresql": "ok", "etcd": "ok", "redis": "ok", "s3": "ok"},
    }
    assert response.status_code == 200


def test_a_store_that_fails_is_named_and_its_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ConnectionError("postgresql://user:hunter2@host")

    monkeypatch.setattr(health, "CHECKS", {"good": lambda: None, "bad": fail})
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "stores": {"good": "ok", "bad": "no answer"}}


def test_a_store_that_hangs_is_waited_for_no_longer_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, let_go = [], Event()

    def hang() -> None:
        asked.append(1)
        let_go.wait(30)

    monkeypatch.setattr(health, "BOUND_S", 0.05)
    monkeypatch.setattr(health, "CHECKS", {"stuck": hang})
    for _ in range(3):
        assert Client().get("/readyz").json()["stores"] == {"stuck": "no answer within 0.05 s"}
    let_go.set()
    health._asked["stuck"].result(timeout=10)
    assert asked == [1]


def test_metrics_count_answers(ada: Any) -> None:
    ada.get("jobs")
    text = Client().get("/metrics").content.decode()
    assert 'gangway_api_requests_total{endpoint="Jobs",method="GET",status="200"}' in text


def test_metrics_count_keys_that_cannot_be_read(show: Callable[..., None]) -> None:
    assert "gangway_unreadable_keys 0.0" in Client().get("/metrics").content.decode()
    show({keys.decision_job("j1"): b"{"})
    assert "gangway_unreadable_keys 1.0" in Client().get("/metrics").content.decode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_they_are_only_read(path: str) -> None:
    assert Client().post(path).status_code == 405
