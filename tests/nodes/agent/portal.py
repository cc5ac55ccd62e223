"""A control plane for one agent that is a program: scripted answers to the real requests, by TLS if wanted."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import web

from nodes.protocol import (
    LOGS_PATH,
    REGISTER_PATH,
    SYNC_PATH,
    LogsAnswer,
    LogsRequest,
    LogTaken,
    RegisterAnswer,
    RegisterRequest,
    SyncAnswer,
    SyncRequest,
    decode,
    encode,
)
from scheduler.core.types import Assignment, GangReport
from tests.system import until

WITHIN_S = 40.0


class Portal:
    """Serves in a thread of its own. ``orders`` is what should be; ``away``: every request is answered 503.

    ``lease_s`` is how long the node counts as alive after a request.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, lease_s: float = 30.0) -> None:
        self.orders: tuple[Assignment, ...] = ()
        self.away = False
        self.replaced = False
        self.lease_s = lease_s
        self.registrations: list[RegisterRequest] = []
        self.tokens: set[str] = set()
        self.syncs: list[SyncRequest] = []
        self.logs: dict[tuple[str, int, int], bytes] = {}
        self._revision = 1
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> Portal:
        self._thread.start()
        assert self._serving.wait(WITHIN_S)
        return self

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN_S)

    def order(self, *orders: Assignment) -> None:
        """What should be from now on; told with the next answer, at the latest after a second."""
        self.orders, self._revision = orders, self._revision + 1

    @property
    def gangs(self) -> tuple[GangReport, ...]:
        """What was last reported."""
        return self.syncs[-1].report.gangs if self.syncs else ()

    def hears(self, condition: Callable[[], bool]) -> None:
        until(condition, WITHIN_S, lambda: str(self.syncs[-1:]))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post(REGISTER_PATH, self._register)
        app.router.add_post(SYNC_PATH, self._sync)
        app.router.add_post(LOGS_PATH, self._logs)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        self._loop.run_until_complete(self._listen(runner))
        self._serving.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _listen(self, runner: web.AppRunner) -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls)
        await site.start()
        self.port = runner.addresses[0][1]

    async def _register(self, request: web.Request) -> web.Response:
        asked = decode(RegisterRequest, await request.read())
        if self.away:
            return web.Response(status=503)
        self.registrations.append(asked)
        self.tokens.add(request.headers["Authorization"])
        return web.Response(body=encode(RegisterAnswer(asked.node.name, "")))

    async def _sync(self, request: web.Request) -> web.Response:
        asked = decode(SyncRequest, await request.read())
        if self.away:
            return web.Response(status=503)
        if self.replaced:
            return _problem(409, "old_boot")
        if request.headers["Authorization"] not in self.tokens:
            return _problem(401, "bad_token")
        self.syncs.append(asked)
        waited_s = 0.0
        while asked.known == self._name and waited_s < min(asked.wait_s, 1.0):
            await asyncio.sleep(0.02)
            waited_s += 0.02
        told = None if asked.known == self._name else self.orders
        fence = max((one.fence for one in self.orders), default=0)
        answer = SyncAnswer(self._name, self._revision, fence, 0, int(self.lease_s * 1000), 1.0, 0, told)
        return web.Response(body=encode(answer))

    async def _logs(self, request: web.Request) -> web.Response:
        taken = []
        for piece in decode(LogsRequest, await request.read()).pieces:
            key = (piece.job, piece.attempt, piece.rank)
            held = self.logs.setdefault(key, b"")
            if piece.start <= len(held):
                self.logs[key] = held[: piece.start] + piece.data
            taken.append(LogTaken(*key, next=len(self.logs[key]), kept=len(self.logs[key])))
        return web.Response(body=encode(LogsAnswer(tuple(taken), 1.0)))

    @property
    def _name(self) -> str:
        return f"orders-{self._revision}"


def _problem(status: int, kind: str) -> web.Response:
    body: dict[str, Any] = {"type": f"urn:gangway:problem:{kind}", "title": kind, "status": status, "detail": kind}
    return web.Response(status=status, body=encode(body), content_type="application/problem+json")
