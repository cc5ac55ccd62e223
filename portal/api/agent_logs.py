"""``POST /api/v1/agent/logs``, in front of Django: what ranks write, on its way to object storage.

Storage may hang, so this has a few threads of its own and a bound on who waits for them. Past it an agent is told to
come again: what its ranks write lies safe on its host meanwhile, and nothing else of this process is held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import redis
import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import Error as DatabaseError
from prometheus_client import Counter

from nodes.protocol import LogPiece, LogsAnswer, LogsRequest, LogTaken, ProtocolError, decode, encode
from nodes.selectors import Identity
from nodes.sync import Outcome, Refused
from portal.api.agent_door import Gone, problem, read_body, send_answer, send_problem
from portal.api.body_limit import Receive, Send
from scheduler import clock, connections
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs.archive import Archive, Log
from scheduler.ranklogs.services import Desk
from scheduler.ranklogs.watching import watched

log = structlog.get_logger(__name__)

MAX_BODY = 2 * 1024 * 1024
MAX_PIECES = 256
MAX_PIECE = 768 * 1024
MAX_NUMBER = 1 << 31
MAX_OFFSET = 1 << 48
THREADS = 4
MOST_WAITING = 32
"""Requests that may wait for a thread."""
WATCHED_EVERY_S, EVERY_S = 1.0, 15.0

LOGS = Counter("gangway_agent_logs", "Requests that bring logs of ranks, by what became of them", ["outcome"])


class LogsApp:
    """Serves agents' logs.

    Args:
        identify: whose token a request carries; raises Refused.
    """

    def __init__(
        self,
        identify: Callable[[dict[str, Any]], Awaitable[Identity]],
        desk: Desk,
        now: Callable[[], datetime],
    ) -> None:
        self._identify = identify
        self._desk = desk
        self._now = now
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="agents-logs")
        self._inside = 0

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            body = problem(405, "about:blank", "Method not allowed", "hand in logs by POST")
            await send_answer(send, 405, body, headers=[(b"allow", b"POST")])
            return
        try:
            body = await self._answer(scope, receive)
        except Gone:
            return
        except Refused as refused:
            LOGS.labels(refused.outcome).inc()
            await send_problem(send, refused.outcome, str(refused))
        except Exception:
            log.exception("logs could not be taken")
            await send_answer(send, 500, problem(500, "about:blank", "Internal error", "the portal's log says why"))
        else:
            LOGS.labels("taken").inc()
            await send_answer(send, 200, body, b"application/json")

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> bytes:
        identity = await self._identify(scope)
        if self._inside >= THREADS + MOST_WAITING:
            raise Refused(Outcome.STORE_AWAY, "too many logs wait to be stored; send them again later")
        self._inside += 1
        try:
            request = _request(await read_body(scope, receive, MAX_BODY), identity)
            loop = asyncio.get_running_loop()
            answers, looked_at, grown = await loop.run_in_executor(self._threads, self._take, request)
        finally:
            self._inside -= 1
        await _tell(grown)
        every_s = WATCHED_EVERY_S if looked_at else EVERY_S
        return encode(LogsAnswer(tuple(answers), every_s))

    def _take(self, request: LogsRequest) -> tuple[list[LogTaken], bool, list[Log]]:
        """Keep the pieces; answers what became of them, whether somebody looks, and which watched logs have grown."""
        try:
            answers, grown = self._desk.take(request.node, request.pieces, self._now())
        except (ObjectsUnavailable, DatabaseError) as error:
            log.warning("logs are not taken: a store is away", node=request.node, error=str(error))
            raise Refused(Outcome.STORE_AWAY, "a store is away; send it again later") from error
        looked_at = watched(piece.job for piece in request.pieces)
        return answers, bool(looked_at), [one for one in grown if one.job in looked_at]


def _request(body: bytes, identity: Identity) -> LogsRequest:
    try:
        request = decode(LogsRequest, body)
        if request.node != identity.node:
            raise Refused(Outcome.OTHER_NODE, f"this token is not that of {request.node!r}")
        if len(request.pieces) > MAX_PIECES:
            raise ProtocolError("pieces", f"must be at most {MAX_PIECES}")
        for at, piece in enumerate(request.pieces):
            _check(piece, f"pieces[{at}]")
    except ProtocolError as error:
        raise Refused(Outcome.GARBAGE, str(error)) from error
    return request


def _check(piece: LogPiece, at: str) -> None:
    if not piece.job.isalnum() or len(piece.job) > 32 or not piece.job.isascii():
        raise ProtocolError(f"{at}.job", "must be the id of a job")
    if not 1 <= piece.attempt < MAX_NUMBER:
        raise ProtocolError(f"{at}.attempt", "must be at least 1")
    if not 0 <= piece.rank < MAX_NUMBER:
        raise ProtocolError(f"{at}.rank", "must not be negative")
    if not 0 <= piece.start < MAX_OFFSET:
        raise ProtocolError(f"{at}.start", "must not be negative")
    if len(piece.data) > MAX_PIECE:
        raise ProtocolError(f"{at}.data", f"must be at most {MAX_PIECE} bytes")


async def _tell(grown: Iterable[Log]) -> None:
    """Tell who looks. A message may be lost: the page asks again from time to time."""
    layer = get_channel_layer()
    try:
        for of in grown if layer is not None else ():
            news = {"type": "job.logged", "attempt": of.attempt, "rank": of.rank}
            await layer.group_send(f"job.{of.job}", news)
    except (redis.RedisError, OSError) as error:
        log.warning("could not tell who looks at a log", error=str(error))


def archive() -> Archive:
    """Where this process keeps and finds logs."""
    return Archive(connections.objects, settings.LOGS_BUCKET)


def live(identify: Callable[[dict[str, Any]], Awaitable[Identity]]) -> LogsApp:
    """The application of this process, on its stores."""
    desk = Desk(archive(), settings.LOG_LIMIT_BYTES, connections.release_database)
    return LogsApp(identify, desk, lambda: clock.to_datetime(clock.now_ms()))
