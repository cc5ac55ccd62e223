"""A metadata server on loopback that answers as it is told, for one watch of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web

from nodes.agent.notices import watch
from nodes.agent.notices.board import Board
from scheduler.core.types import Notice

NOW_MS = 1_800_000_000_000
WITHIN_S = 10.0


class Server:
    """``paths`` maps a path to what it answers: a status and a text, or a function of the request. ``asked`` are the
    requests so far, as (method, path, headers, body)."""

    def __init__(self) -> None:
        self.paths: dict[str, tuple[int, str] | Callable[[web.Request], Awaitable[web.Response]]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.away = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path, dict(request.headers), await request.read()))
        if self.away:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        answer = self.paths.get(request.path, (404, ""))
        if callable(answer):
            return await answer(request)
        status, text = answer
        return web.Response(status=status, text=text)

    def count(self, path: str, method: str = "GET") -> int:
        return sum(asked[:2] == (method, path) for asked in self.asked)


Script = Callable[[Server, Board], Awaitable[Any]]


def played(provider: str, script: Script, **options: Any) -> Any:
    """What the script answers, beside a running watch of the provider at the server."""

    async def play() -> Any:
        server = Server()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        board = Board(lambda: None)
        async with aiohttp.ClientSession() as session:
            watching = asyncio.create_task(watch(provider, session, board, lambda: NOW_MS, url, **options).run())
            try:
                return await script(server, board)
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
                await runner.cleanup()

    return asyncio.run(play())


async def until(holds: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait for a condition; the requests of a watch come a fraction of a second apart in these tests."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.01)


def kinds(board: Board) -> list[str]:
    return [notice.kind.value for notice in board.current]


def only(board: Board) -> Notice:
    (notice,) = board.current
    return notice
