"""The sockets from outside: who is let in, what comes first, what follows a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import Client
from knox.models import AuthToken

from portal.accounts.models import User
from portal.live.gate import ours
from portal.live.routing import application
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.connections import ids
from scheduler.core.types import JobDecision, JobIntent, JobSpec, NodeIntent, Phase, Slice
from scheduler.models import Job
from scheduler.picture import Picture
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore
from tests.portal.api.conftest import picture, show, store
from tests.portal.people import make_tree, make_user
from tests.scheduler.builders import row_of_job

__all__ = ["picture", "show", "store"]

pytestmark = pytest.mark.django_db(transaction=True)
HERE = b"http://gangway.example:8000"


class Socket:
    """One end of a WebSocket to the portal."""

    def __init__(self, path: str, *headers: tuple[bytes, bytes]) -> None:
        known = [(b"host", HERE.removeprefix(b"http://")), *headers]
        scope = {"type": "websocket", "path": path, "headers": known, "query_string": b"", "subprotocols": []}
        # asgiref gives no types for what tests use.
        self._end: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]

    async def open(self) -> dict[str, Any]:
        await self._end.send_input({"type": "websocket.connect"})
        return dict(await self._end.receive_output(10))

    async def next(self) -> dict[str, Any]:
        output = await self._end.receive_output(10)
        return dict(json.loads(output["text"]) if output["type"] == "websocket.send" else output)

    async def of_kind(self, kind: str) -> dict[str, Any]:
        while (message := await self.next())["type"] != kind:
            assert message["type"] != "websocket.close", message
        return message

    async def code(self) -> int:
        """The code with which the portal closes it."""
        while (message := await self.next())["type"] != "websocket.close":
            pass
        return int(message["code"])

    async def say(self, text: str) -> None:
        await self._end.send_input({"type": "websocket.receive", "text": text})

    async def leave(self) -> None:
        await self._end.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._end.wait(10)


def cookie(user: User) -> tuple[bytes, bytes]:
    client = Client()
    client.force_login(user)
    return b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()


def bearer(user: User) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {AuthToken.objects.create(user)[1]}".encode()


ORIGIN = (b"origin", HERE)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 30))


@pytest.fixture
def ada(picture: Picture) -> User:
    make_tree()
    return make_user("ada", "vision")


@pytest.fixture
def eve(ada: User) -> User:
    return make_user("eve", "speech")


@pytest.fixture
def job(ada: User, show: Callable[..., None]) -> Job:
    spec = JobSpec(ids(), "vision", 2, "H100", 2, 3_600_000, clock.now_ms(), name="secret-run", owner="ada@example.com")
    show({keys.intent_node("h1"): NodeIntent("h1", "az1", "r1", "H100"), keys.alive("h1"): b"boot"})
    show({keys.intent_job(spec.id): JobIntent(spec)})
    return row_of_job(spec, QuotaNode.objects.get(name="vision"), ada)


def bind(store: MemoryStore, job: Job) -> int:
    slices = (Slice("h1", (0, 1)),)
    decision = JobDecision(phase=Phase.STARTING, attempt=1, allocation=slices, gpu_type="H100", bound_ms=clock.now_ms())
    return store.commit([], [Put(keys.decision_job(job.pk), codec.encode(decision))]).revision


def test_a_snapshot_comes_first_and_a_bind_follows_as_a_delta(ada: User, job: Job, store: MemoryStore) -> None:
    proof = cookie(ada)

    async def scene() -> None:
        sockets = [Socket(path, ORIGIN, proof) for path in ("/ws/cluster/", "/ws/queue/", f"/ws/jobs/{job.pk}/")]
        firsts = []
        for socket in sockets:
            assert (await socket.open())["type"] == "websocket.accept"
            firsts.append(await socket.next())
        assert [first["type"] for first in firsts] == ["snapshot"] * 3
        cluster, queue, one = firsts
        assert cluster["nodes"] == [["h1", "az1", "r1", "H100", "READY", [-1] * 8]]
        assert [row["name"] for row in queue["put"]] == ["secret-run"]
        assert one["job"]["phase"] == "PENDING"
        revision = bind(store, job)
        deltas = [await socket.of_kind("delta") for socket in sockets]
        assert [delta["from"] for delta in deltas] == [first["revision"] for first in firsts]
        assert all(delta["revision"] >= revision for delta in deltas)
        assert deltas[0]["nodes"][0][-1] == [0, 0, -1, -1, -1, -1, -1, -1]
        assert deltas[1]["total"] == 0
        assert deltas[2]["job"]["phase"] == "STARTING"
        for socket in sockets:
            await socket.leave()

    play(scene)


def test_names_of_other_teams_jobs_never_leave(eve: User, job: Job, store: MemoryStore) -> None:
    proof = bearer(eve)

    async def scene() -> None:
        for path in ("/ws/queue/", "/ws/cluster/"):
            socket = Socket(path, proof)
            await socket.open()
            first = json.dumps(await socket.next())
            assert "secret-run" not in first
            assert "ada@" not in first
            await socket.leave()

    play(scene)


@pytest.mark.parametrize("path", ["/ws/cluster/", "/ws/queue/"])
def test_a_stranger_is_told_to_sign_in(ada: User, path: str) -> None:
    async def scene() -> None:
        for proof in ((b"cookie", b"sessionid=nonsense"), (b"authorization", b"Bearer nonsense")):
            socket = Socket(path, ORIGIN, proof)
            assert (await socket.open())["type"] == "websocket.accept"
            assert await socket.code() == 4401

    play(scene)


def test_anothers_job_is_not_there(eve: User, job: Job) -> None:
    proof = bearer(eve)

    async def scene() -> None:
        socket = Socket(f"/ws/jobs/{job.pk}/", proof)
        await socket.open()
        assert await socket.code() == 4404

    play(scene)


@pytest.mark.parametrize("origin", [b"http://evil.example", b"http://gangway.example:9999", b"null", b""])
def test_a_foreign_page_is_turned_away_with_a_good_cookie(ada: User, origin: bytes) -> None:
    proof = cookie(ada)

    async def scene() -> None:
        socket = Socket("/ws/cluster/", (b"origin", origin), proof)
        assert (await socket.open())["type"] == "websocket.close"

    play(scene)


@pytest.mark.parametrize(
    ("origin", "host", "holds"),
    [
        ("http://a.example", "a.example", True),
        ("https://a.example:8443", "a.example:8443", True),
        ("http://a.example.evil.example", "a.example", False),
        ("http://a.example", "b.example", False),
        ("", "", False),
        ("http://[::1]:8000", "[::1]:8000", True),
    ],
)
def test_an_origin_is_ours_if_it_is_where_the_socket_goes(origin: str, host: str, holds: bool) -> None:
    assert ours(origin, host) is holds


def test_a_resync_is_answered_and_nonsense_ends_the_socket(ada: User, job: Job) -> None:
    proof = bearer(ada)

    async def scene() -> None:
        socket = Socket("/ws/cluster/", proof)
        await socket.open()
        await socket.of_kind("snapshot")
        await socket.say('{"type": "resync"}')
        await socket.of_kind("snapshot")
        await socket.say("[" * 1000)
        assert await socket.code() == 4400

    play(scene)


def test_the_recorders_news_reach_the_jobs_socket(ada: User, job: Job) -> None:
    from channels.layers import get_channel_layer

    proof = bearer(ada)

    async def scene() -> None:
        socket = Socket(f"/ws/jobs/{job.pk}/", proof)
        await socket.open()
        await socket.of_kind("snapshot")
        layer = get_channel_layer()
        await layer.group_send(f"job.{job.pk}", {"type": "job.changed", "id": job.pk, "revision": 77})
        assert (await socket.of_kind("recorded"))["revision"] == 77
        await socket.leave()

    play(scene)
