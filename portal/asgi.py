"""The portal's front door: agents' syncs, sockets, and everything else to Django.

The lifespan starts what a web process keeps running: its picture of the cluster and the renewals of nodes' leases.
"""

from __future__ import annotations

import os
from typing import Any, cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.local")
django = get_asgi_application()

# Django must be set up before anything with models is imported.
from nodes.agent.limits import allow_many_files  # noqa: E402
from nodes.protocol import SYNC_PATH  # noqa: E402
from portal.api import agent_app  # noqa: E402
from portal.api.body_limit import App, BodyLimit, Receive, Send  # noqa: E402
from portal.live.routing import application as sockets  # noqa: E402
from scheduler import connections  # noqa: E402
from scheduler.picture import picture  # noqa: E402


class Portal:
    """One ASGI application out of three, and their lifespan."""

    def __init__(self) -> None:
        self._pages = BodyLimit(cast(App, django))
        self._agents: agent_app.AgentApp | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await sockets(scope, receive, send)
        elif scope["path"] == SYNC_PATH:
            await self._syncs()(scope, receive, send)
        else:
            await self._pages(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        allow_many_files()
        picture().start()
        self._syncs()
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

    async def _end(self) -> None:
        if self._agents is not None:
            await self._agents.stop()
            self._agents = None
        picture().stop()
        connections.close()


application = Portal()
