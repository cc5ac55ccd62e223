"""What the applications for agents in front of Django have in common: bodies, answers, refusals."""

from __future__ import annotations

from typing import Any

from nodes.protocol import encode
from nodes.sync import Outcome, Refused
from portal.api.body_limit import Receive, Send

STATUS = {
    Outcome.STALE: (409, "Stale message"),
    Outcome.OLD_BOOT: (409, "Replaced"),
    Outcome.OTHER_NODE: (403, "Not this node's token"),
    Outcome.GARBAGE: (400, "Not a sync request"),
    Outcome.TOO_LARGE: (413, "Too large"),
    Outcome.BAD_TOKEN: (401, "Not a node's token"),
    Outcome.STORE_AWAY: (503, "A store is away"),
    Outcome.ENDING: (503, "Shutting down"),
}
"""Status and title of each refusal."""


class Gone(Exception):
    """The agent hung up before its request was complete."""


async def read_body(scope: dict[str, Any], receive: Receive, most: int) -> bytes:
    """The whole body.

    Raises:
        Gone: nobody waits for an answer any more.
        Refused: it has more than ``most`` bytes.
    """
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise Refused(Outcome.TOO_LARGE, f"the body may have {most} bytes")
        chunks.append(chunk)
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def send_problem(send: Send, outcome: Outcome, detail: str) -> None:
    status, title = STATUS[outcome]
    headers = {401: [(b"www-authenticate", b"Bearer")], 503: [(b"retry-after", b"1")]}.get(status, [])
    await send_answer(send, status, problem(status, f"urn:gangway:problem:{outcome}", title, detail), headers=headers)


def problem(status: int, kind: str, title: str, detail: str) -> bytes:
    return encode({"type": kind, "title": title, "status": status, "detail": detail})


async def send_answer(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = b"application/problem+json",
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    base = [
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": base + (headers or [])})
    await send({"type": "http.response.body", "body": body})
