"""Django behind the portal's front door."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from portal.asgi import Pages

ran_in: list[int] = []


@sync_and_async_middleware
def noting(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware that notes its thread, whichever way it is run."""

    def note(request: HttpRequest) -> Any:
        ran_in.append(threading.get_ident())
        return get_response(request)

    async def note_async(request: HttpRequest) -> Any:
        return await note(request)

    return note_async if iscoroutinefunction(get_response) else note


def test_all_of_a_request_is_done_in_one_thread(settings: Any) -> None:
    """The first middleware and the last, which is next to the view, run in the same, which is not the event loop's."""
    here = f"{__name__}.noting"
    settings.MIDDLEWARE = [here, *settings.MIDDLEWARE, here]
    ran_in.clear()

    async def ask() -> tuple[int, bytes]:
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [(b"host", b"here")]}
        end: Any = ApplicationCommunicator(Pages(), {**scope, "query_string": b""})  # type: ignore[no-untyped-call]
        await end.send_input({"type": "http.request", "body": b""})
        start, body = await end.receive_output(10), await end.receive_output(10)
        await end.wait()
        return start["status"], body["body"]

    status, body = asyncio.run(ask())
    assert status == 200
    assert b"ok" in body
    assert len(ran_in) == 2
    assert len(set(ran_in)) == 1
    assert threading.get_ident() not in ran_in, "the event loop is not held up"
