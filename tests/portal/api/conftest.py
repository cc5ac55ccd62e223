"""The REST interface on a picture of an empty in-memory store, with the people of ``tests.portal.people``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from knox.models import AuthToken

from nodes.models import Node
from portal.accounts.models import User
from scheduler import clock
from scheduler import picture as picture_module
from scheduler.core.types import NodeIntent
from scheduler.picture import Picture
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore
from tests.portal.people import make_tree, make_user


class Api:
    """Somebody's way to the API: JSON in, ``HttpResponse`` out."""

    def __init__(self, user: User | None = None) -> None:
        self.user = user
        self.client = Client(raise_request_exception=False)
        self.headers: dict[str, str] = {}
        if user is not None:
            self.headers["Authorization"] = f"Bearer {AuthToken.objects.create(user)[1]}"

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        return self.client.get(f"/api/v1/{path}", query, headers={**self.headers, **headers})

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        raw = {} if body is None else {"data": body, "content_type": "application/json"}
        return self.client.post(f"/api/v1/{path}", headers={**self.headers, **headers}, **raw)

    def delete(self, path: str) -> Any:
        return self.client.delete(f"/api/v1/{path}", headers=self.headers)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock.now_ms)


@pytest.fixture
def picture(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Picture]:
    """This process's picture, of the in-memory store."""
    monkeypatch.setattr(picture_module, "WAIT_S", 0.02)
    shown = Picture(lambda: store, clock.now_ms)
    monkeypatch.setitem(picture_module._pictures, os.getpid(), shown)
    shown.start()
    assert shown.wait_for(0, 10)
    yield shown
    shown.stop()


@pytest.fixture
def show(store: MemoryStore, picture: Picture) -> Callable[..., None]:
    """Puts records into the store, key by key, and waits until the picture shows them."""

    def put(records: dict[str, Any]) -> None:
        raw = [Put(key, value if isinstance(value, bytes) else codec.encode(value)) for key, value in records.items()]
        committed = store.commit([], raw)
        assert picture.wait_for(committed.revision, 10)

    return put


@pytest.fixture
def tree(db: None, picture: Picture) -> None:
    make_tree()


@pytest.fixture
def fleet(tree: None, show: Callable[..., None]) -> None:
    """Two zones: 4 hosts of H100 in one, 2 in the other, and one of A100; in PostgreSQL and in the live state."""
    hosts = [("az1", "r1", "H100")] * 4 + [("az2", "r2", "H100")] * 2 + [("az2", "r3", "A100")]
    shown: dict[str, Any] = {}
    for number, (az, rack, gpu_type) in enumerate(hosts, start=1):
        intent = NodeIntent(f"h{number}", az, rack, gpu_type)
        Node.objects.create(
            name=intent.name,
            az=az,
            rack=rack,
            gpu_type=gpu_type,
            gpus=intent.gpus,
            cpus=intent.cpus,
            memory_gb=intent.memory_gb,
            scratch_gb=intent.scratch_gb,
            token_hash=f"{number:064}",
        )
        shown[keys.intent_node(intent.name)] = intent
        shown[keys.alive(intent.name)] = b"boot"
    show(shown)


@pytest.fixture
def ada(tree: None) -> Api:
    """A member of vision."""
    return Api(make_user("ada", "vision"))


@pytest.fixture
def bob(tree: None) -> Api:
    """Another member of vision."""
    return Api(make_user("bob", "vision"))


@pytest.fixture
def eve(tree: None) -> Api:
    """A member of speech alone."""
    return Api(make_user("eve", "speech"))


@pytest.fixture
def pager(tree: None) -> Api:
    """On call."""
    return Api(make_user("pager", is_oncall=True))


@pytest.fixture
def nobody(db: None, picture: Picture) -> Api:
    """Not signed in."""
    return Api()


def body(**changes: Any) -> dict[str, Any]:
    """A job for vision: 8 H100; ``gpus`` and ``gpu_type`` are shorthands."""
    resources = {"gpu_count": changes.pop("gpus", 8), "gpu_type": changes.pop("gpu_type", "H100")}
    return {
        "name": "run",
        "team": "vision",
        "image": "registry.example.com/train:1",
        "command": ["python", "train.py"],
        "resources": resources,
        **changes,
    }


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem detail of an answer that must be one."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert found["title"]
    return found
