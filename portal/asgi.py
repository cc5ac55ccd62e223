"""The portal's front door: agents' syncs, sockets, and everything else to Django.

The lifespan starts what a web process keeps running: its picture of the cluster, the renewals of nodes' leases
and the watch for stores that do not answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.local")
django.setup(set_prefix=False)

# Django must be set up before anything with models is imported.
from nodes.agent.limits import allow_many_files  # noqa: E402
from nodes.protocol import LOGS_PATH, SYNC_PATH  # noqa: E402
from portal.api import agent_app, agent_logs  # noqa: E402
from portal.api.body_limit import App, BodyLimit, Receive, Send  # noqa: E402
from portal.heap import heap  # noqa: E402
from portal.live.routing import application as sockets  # noqa: E402
from portal.outage_watch import watch  # noqa: E402
from scheduler import connections  # noqa: E402
from scheduler.picture import picture  # noqa: E402


class Pages(ASGIHandler):
    """Django, all of its middleware and the view in one go in the thread that the request has anyway.

    Left to itself Django would run the middleware from the event loop and go to the thread and back for each part of
    each: a good part of what a request costs. Nothing here is the wiser for it, since no view waits for anything long.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)


class Portal:
    """One ASGI application out of three, and their lifespan."""

    def __init__(self) -> None:
        self._pages = BodyLimit(cast(App, Pages()))
        self._agents: agent_app.AgentApp | None = None
        self._logs: agent_logs.LogsApp | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await sockets(scope, receive, send)
        elif scope["path"] == SYNC_PATH:
            await self._syncs()(scope, receive, send)
        elif scope["path"] == LOGS_PATH:
            await self._takes_logs()(scope, receive, send)
        else:
            await self._pages(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        allow_many_files()
        heap.keep_pauses_short()
        picture().start()
        watch.start()
        self._dismiss_agents_at_the_signal()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._end()
        await send({"type": "lifespan.shutdown.complete"})

    def _syncs(self) -> agent_app.AgentApp:
        """The agents' application, started by the first sync where the server has no lifespan."""
        if self._agents is None:
            self._agents = agent_app.live()
            self._agents.start()
        return self._agents

    def _takes_logs(self) -> agent_logs.LogsApp:
        if self._logs is None:
            self._logs = agent_logs.live(self._syncs().identify)
        return self._logs

    def _dismiss_agents_at_the_signal(self) -> None:
        """The server waits for open requests before it ends the lifespan, and long polls are open for seconds."""
        loop, agents = asyncio.get_running_loop(), self._syncs()

        def chain(former: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], None]:
            def handle(number: int, frame: FrameType | None) -> None:
                loop.call_soon_threadsafe(agents.dismiss)
                former(number, frame)

            return handle

        for number in (signal.SIGTERM, signal.SIGINT):
            former = signal.getsignal(number)
            if callable(former):
                signal.signal(number, chain(former))

    async def _end(self) -> None:
        if self._logs is not None:
            self._logs.stop()
            self._logs = None
        if self._agents is not None:
            await self._agents.stop()
            self._agents = None
        await asyncio.to_thread(watch.stop)
        picture().stop()
        heap.leave_alone()
        connections.close()


application = Portal()
