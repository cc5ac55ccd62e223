"""Keeps large bodies out before Django spools them: under ASGI it reads a body whole before any view is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from portal.api.parsers import MOST_BYTES, too_large
from portal.api.problems import CONTENT_TYPE

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class BodyLimit:
    """An ASGI application that answers 413 for a body of more than ``most`` bytes, declared or not."""

    def __init__(self, app: App, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _declared(scope) > self._most:
            await _refuse(send)
        else:
            await _Counted(receive, send, self._most).run(self._app, scope)


class _Counted:
    """One request. Past the limit the application sees its client gone, and the client sees a 413."""

    def __init__(self, receive: Receive, send: Send, most: int) -> None:
        self._receive, self._send = receive, send
        self._left = most
        self._refused = False
        self._started = False

    async def run(self, app: App, scope: dict[str, Any]) -> None:
        await app(scope, self.receive, self.send)

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left >= 0:
            return message
        if not self._refused and not self._started:
            self._refused = True
            await _refuse(self._send)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._started = True
        if not self._refused:
            await self._send(message)


def _declared(scope: dict[str, Any]) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Send) -> None:
    body = msgspec.json.encode(too_large().body())
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    # What is still on its way is not read: the connection is of no more use.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
