"""No body is taken in beyond the limit, whether its length is declared or not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from portal.api.body_limit import BodyLimit

LIMIT = 100


class Client:
    """Sends ``chunks`` and keeps what it is answered; counts the bytes that were taken from it."""

    def __init__(self, chunks: list[bytes], length: int | None) -> None:
        self.chunks = chunks
        self.taken = 0
        self.answered: list[dict[str, Any]] = []
        headers = [] if length is None else [(b"content-length", str(length).encode())]
        self.scope = {"type": "http", "headers": headers}

    async def receive(self) -> dict[str, Any]:
        chunk = self.chunks.pop(0)
        self.taken += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}

    async def send(self, message: dict[str, Any]) -> None:
        self.answered.append(message)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers 200 with the length of the body; nothing to a client that is gone, as Django does."""
    total = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        total += len(message["body"])
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(total).encode()})


def ask(client: Client) -> tuple[int, bytes]:
    asyncio.run(BodyLimit(echo, LIMIT)(client.scope, client.receive, client.send))
    start, body = client.answered
    return start["status"], body["body"]


@pytest.mark.parametrize("length", [100, None], ids=["declared", "chunked"])
def test_a_body_at_the_limit_passes(length: int | None) -> None:
    assert ask(Client([b"a" * 60, b"b" * 40], length)) == (200, b"100")


def test_a_declared_length_is_refused_before_anything_is_read() -> None:
    client = Client([b"a" * 10_000_000], 10_000_000)
    status, body = ask(client)
    assert (status, json.loads(body)["status"], client.taken) == (413, 413, 0)


def test_an_undeclared_one_is_refused_where_the_limit_is_passed() -> None:
    client = Client([b"a" * 60] * 1000, None)
    status, body = ask(client)
    assert (status, json.loads(body)["title"], client.taken) == (413, "Request Entity Too Large", 120)


def test_a_length_that_lies_is_counted() -> None:
    assert ask(Client([b"a" * 60, b"b" * 60], 10))[0] == 413


def test_what_is_no_http_passes_untouched() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    client = Client([], None)
    asyncio.run(BodyLimit(app, LIMIT)({"type": "websocket"}, client.receive, client.send))
    assert seen == ["websocket"]
