"""The client over real HTTP, against a server that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from nodes.agent.client import Client, NotRegistered, Rejected, Unreachable
from nodes.protocol import (
    REGISTER_PATH,
    SYNC_PATH,
    Inventory,
    RegisterAnswer,
    RegisterRequest,
    SyncAnswer,
    SyncRequest,
    decode,
    encode,
)
from tests.nodes.speech import NODE, request

ANSWER = SyncAnswer("h", 3, 0, 0, 30_000, 10.0, 0)

Handler = Callable[[web.Request], Awaitable[web.Response]]


def _with_server(handler: Handler, script: Callable[[Client], Awaitable[Any]]) -> Any:
    """What the script answers, with a client of a server that answers every POST by ``handler``."""

    async def play() -> Any:
        app = web.Application()
        app.router.add_post("/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as session:
            try:
                return await script(Client(session, f"http://127.0.0.1:{port}/"))
            finally:
                await runner.cleanup()

    return asyncio.run(play())


def _answers(status: int, body: bytes) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    return handler


def _sync(client: Client) -> Awaitable[SyncAnswer]:
    return client.sync(request(1), "token", 5.0)


def test_what_is_said_arrives_with_the_token() -> None:
    heard: list[Any] = []

    async def handler(said: web.Request) -> web.Response:
        heard.extend([said.path, said.headers["Authorization"], decode(SyncRequest, await said.read())])
        return web.Response(body=encode(ANSWER))

    assert _with_server(handler, _sync) == ANSWER
    assert heard == [SYNC_PATH, "Bearer token", request(1)]


def test_registration_answers_the_node() -> None:
    asked = RegisterRequest(Inventory(NODE, "az1", "r1", "H100"), "join")

    async def handler(said: web.Request) -> web.Response:
        assert said.path == REGISTER_PATH and decode(RegisterRequest, await said.read()) == asked
        return web.Response(body=encode(RegisterAnswer(NODE, "own")))

    assert _with_server(handler, lambda client: client.register(asked, "own")) == RegisterAnswer(NODE, "own")


@pytest.mark.parametrize(
    ("status", "body", "error", "says"),
    [
        pytest.param(401, b'{"detail": "who?"}', NotRegistered, "who", id="unknown token"),
        pytest.param(409, b'{"type": "urn:x", "detail": "replaced"}', Rejected, "409: replaced", id="rejected"),
        pytest.param(503, b'{"detail": "store away"}', Unreachable, "store away", id="not now"),
        pytest.param(429, b"slow down", Unreachable, "429", id="too many"),
        pytest.param(502, b"<html>proxy</html>", Unreachable, "502", id="a proxy without a server"),
        pytest.param(404, b"<html>", Rejected, "404", id="another server"),
        pytest.param(200, b"<html>welcome</html>", Unreachable, "not one of ours", id="a welcome page"),
        pytest.param(200, b'{"hash": 1}', Unreachable, "hash", id="an answer of another kind"),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        _with_server(_answers(status, body), _sync)


def test_a_rejection_tells_its_kind() -> None:
    with pytest.raises(Rejected) as caught:
        _with_server(_answers(409, b'{"type": "urn:x", "detail": "replaced"}'), _sync)
    assert caught.value.kind == "urn:x"


def test_an_answer_that_does_not_come_in_time_is_none() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Unreachable):
        _with_server(never, lambda client: client.sync(request(1), "token", 0.1))


def test_nobody_there() -> None:
    async def play() -> None:
        async with aiohttp.ClientSession() as session:
            await Client(session, "http://127.0.0.1:9").sync(request(1), "token", 5.0)

    with pytest.raises(Unreachable):
        asyncio.run(play())
