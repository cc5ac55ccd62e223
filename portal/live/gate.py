"""Who is at the other end of a socket: somebody signed in, on a page of ours; or a program with a bearer token.

A browser sends a site's cookies whichever page opens the socket, so a session counts only together with an Origin that
is ours. A program sends no Origin; its token is proof enough.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http.request import split_domain_port, validate_host

from portal.accounts import tokens

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class Gate:
    """Puts ``user`` in the scope, anonymous where nobody proved anything; turns away a foreign page's handshake."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner
        self._by_session = SessionMiddlewareStack(self._with_session)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        bearer = headers.get(b"authorization", "")
        if bearer[:7].lower() == "bearer ":
            scope["user"] = await database_sync_to_async(_bearer)(bearer[7:].strip())
            await self._inner(scope, receive, send)
        elif ours(headers.get(b"origin", ""), headers.get(b"host", "")):
            await self._by_session(scope, receive, send)
        else:
            await WebsocketDenier()(scope, receive, send)

    async def _with_session(self, scope: Scope, receive: Any, send: Any) -> None:
        scope["user"] = await get_user(scope)
        await self._inner(scope, receive, send)


def ours(origin: str, host: str) -> bool:
    """Whether a page of ``origin`` may use the session: it came from the host it speaks to, or is trusted by name.

    The port counts too: another program on the same machine is another site.
    """
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS) and urlsplit(origin).netloc == host


def _bearer(token: str) -> Any:
    found = tokens.find(token)
    return found.user if found is not None else AnonymousUser()
