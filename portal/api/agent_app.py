"""``POST /api/v1/agent/sync`` as an ASGI application of its own, in front of Django.

Over a thousand agents are always asking here, so an idle sync costs a fraction of a millisecond: no middleware, no
thread, no store. The agent's token and its last report are known, its lease is renewed together with all others, and
the request then waits for the picture of the cluster to show other orders. Whatever must speak with a store does so in
threads; those for PostgreSQL, for reports and for renewals are apart: no outage of the first costs a node its lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

import structlog
from django.db import Error as DatabaseError
from redis import RedisError

from nodes import reports
from nodes.liveness import LEASE_S, Renewals
from nodes.protocol import ProtocolError, SyncAnswer, SyncRequest, decode, encode_answer
from nodes.readings import Readings
from nodes.selectors import Identity
from nodes.sync import OLD_ATTEMPTS, SYNCS, Outcome, Refused, SyncDesk
from nodes.tokens import token_hash
from portal.api.agent_door import Gone, problem, read_body, send_answer, send_problem
from portal.api.agent_identities import REFRESH_EVERY_S, Identities
from portal.api.agent_waiting import WaitingRoom
from portal.api.body_limit import Receive, Send
from scheduler import clock, connections, wakeups
from scheduler.core.types import NodeReport
from scheduler.picture import Picture, picture
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


MAX_BODY = 256 * 1024
"""Bytes of a request: sixteen times what a host of 8 GPUs with four attempts on each has to say."""
MAX_WAIT_S = 10.0
"""The longest that a request is kept waiting; with it an idle agent syncs three times in the life of its lease."""
AGAIN_S = 2.0
"""How long the agent waits whose report could not be written; it says it all again."""
TELL_EVERY_S = 2.0
"""For how long telemetry is gathered."""
RENEW_EVERY_S = 0.5
"""For how long renewals are gathered."""
REPORTING_THREADS = 8
MOST_LOOK_UPS = 256
"""Tokens that may wait for the database at the same time; an agent that is turned away asks again."""


class AgentApp:
    """Serves agents' syncs. Runs in one event loop; ``start`` it there before the first request and ``stop`` it after.

    Args:
        report_changed: called in a thread of the pool with a report that was written; the scheduler has something to
            see.
        now_ms, monotonic_s: the wall clock, and one that never steps back: the one that ``desk`` and ``renewals`` use.
        readings: where telemetry goes.
    """

    def __init__(
        self,
        identities: Identities,
        desk: SyncDesk,
        renewals: Renewals,
        waiting: WaitingRoom,
        report_changed: Callable[[NodeReport], object],
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        readings: Readings,
    ) -> None:
        self._identities = identities
        self._readings = readings
        self._desk = desk
        self._renewals = renewals
        self._waiting = waiting
        self._report_changed = report_changed
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._reporting = ThreadPoolExecutor(REPORTING_THREADS, thread_name_prefix="agents-reports")
        self._renewing = ThreadPoolExecutor(1, thread_name_prefix="agents-renewals")
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="agents-tokens")
        self._telling = ThreadPoolExecutor(1, thread_name_prefix="agents-telemetry")
        self._look_ups = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False

    def start(self) -> None:
        self._waiting.open(asyncio.get_running_loop())
        self._tasks = [
            asyncio.create_task(self._renew_for_ever(), name="renewals of nodes' leases"),
            asyncio.create_task(self._refresh_for_ever(), name="refreshes of nodes' tokens"),
            asyncio.create_task(self._tell_for_ever(), name="telemetry on its way to Redis"),
        ]

    def dismiss(self) -> None:
        """Let everybody who waits go and take no more syncs: the server is about to wait for open requests."""
        self._ending = True
        self._waiting.dismiss()

    async def stop(self) -> None:
        """``dismiss``, and end what runs beside the requests."""
        self.dismiss()
        self._waiting.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pool in (self._reporting, self._renewing, self._asking, self._telling):
            pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        arrived_s = self._monotonic_s()
        if scope["method"] != "POST":
            body = problem(405, "about:blank", "Method not allowed", "sync by POST")
            await send_answer(send, 405, body, headers=[(b"allow", b"POST")])
            return
        try:
            body = await self._answer(scope, receive, arrived_s)
        except Gone:
            return
        except Refused as refused:
            SYNCS.labels(refused.outcome).inc()
            await send_problem(send, refused.outcome, str(refused))
        except asyncio.CancelledError:
            # The server's patience with open requests is over, and a store that is away has outlasted it.
            if not self._ending:
                raise
            await send_problem(send, Outcome.ENDING, "this process ends; ask again")
        except Exception:
            log.exception("a sync failed")
            await send_answer(send, 500, problem(500, "about:blank", "Internal error", "the portal's log says why"))
        else:
            await send_answer(send, 200, body, b"application/json")

    async def _answer(self, scope: dict[str, Any], receive: Receive, arrived_s: float) -> bytes:
        if self._ending:
            raise Refused(Outcome.ENDING, "this process ends; ask again")
        identity = await self.identify(scope)
        request = _request(await read_body(scope, receive, MAX_BODY), identity)
        longest_s = MAX_WAIT_S if await self._take_in(request) else AGAIN_S
        if request.telemetry is not None:
            self._readings.note(request.node, request.telemetry)
        try:
            orders = await self._waiting.wait(
                request.node, request.known, request.revision, min(request.wait_s, longest_s)
            )
        except StoreUnavailable as error:
            raise Refused(Outcome.STORE_AWAY, str(error)) from error
        renewed_s = self._desk.renewed_s(request.node)
        answer = SyncAnswer(
            hash=orders.hash if orders else request.known,
            revision=max(self._waiting.revision, request.revision),
            fence=orders.fence if orders else 0,
            renewed_ms=None if renewed_s is None else int((renewed_s - arrived_s) * 1000 // 1),
            lease_ms=LEASE_S * 1000,
            wait_s=MAX_WAIT_S,
            time_ms=self._now_ms(),
        )
        return encode_answer(answer, orders.encoded if orders else None)

    async def identify(self, scope: dict[str, Any]) -> Identity:
        """Whose token the request carries.

        Raises:
            Refused
        """
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refused(Outcome.BAD_TOKEN, "send the node's token as 'Authorization: Bearer …'")
        hashed = token_hash(token)
        identity, known = self._identities.recall(hashed)
        if not known:
            identity = await self._look_up(hashed)
        if identity is None:
            raise Refused(Outcome.BAD_TOKEN, "no node has this token; register the node anew")
        return identity

    async def _look_up(self, hashed: str) -> Identity | None:
        if self._look_ups >= MOST_LOOK_UPS:
            raise Refused(Outcome.STORE_AWAY, "too many tokens wait to be looked up")
        self._look_ups += 1
        try:
            return await _in_thread(self._asking, self._identities.look_up, hashed)
        except DatabaseError as error:
            raise Refused(Outcome.STORE_AWAY, "the token cannot be looked up now") from error
        finally:
            self._look_ups -= 1

    async def _take_in(self, request: SyncRequest) -> bool:
        """Whether what the agent says lies in the store. If it does not, the agent is in touch all the same."""
        try:
            changed = not self._desk.admit(request) and await _in_thread(self._reporting, self._settle, request)
        except StoreUnavailable:
            SYNCS.labels(Outcome.STORE_AWAY).inc()
            return False
        SYNCS.labels(Outcome.CHANGED if changed else Outcome.UNCHANGED).inc()
        return True

    def _settle(self, request: SyncRequest) -> bool:
        changed = self._desk.settle(request)
        if changed:
            self._report_changed(request.report)
        return changed

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                gone = await _in_thread(self._renewing, self._renewals.send)
            except StoreUnavailable as error:
                log.warning("nodes' leases are not renewed", error=str(error))
            else:
                # Their agents count as lost already: have them come back at once for a new lease.
                self._waiting.release(self._desk.holders(gone) if gone else [])

    async def _refresh_for_ever(self) -> None:
        while True:
            try:
                await _in_thread(self._asking, self._identities.refresh)
            except DatabaseError as error:
                log.warning("nodes' tokens are not refreshed", error=str(error))
            await asyncio.sleep(REFRESH_EVERY_S)

    async def _tell_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            try:
                await _in_thread(self._telling, self._readings.send)
            except RedisError as error:
                log.warning("telemetry is not passed on", error=str(error))


async def _in_thread(pool: ThreadPoolExecutor, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, partial(call, *args, **kwargs))


def _request(body: bytes, identity: Identity) -> SyncRequest:
    try:
        request = decode(SyncRequest, body)
        if request.node != identity.node:
            raise Refused(Outcome.OTHER_NODE, f"this token is not that of {request.node!r}")
        reports.check(request, identity.gpus)
    except ProtocolError as error:
        raise Refused(Outcome.GARBAGE, str(error)) from error
    return request


def count_old_attempts(shown: Picture, report: NodeReport) -> None:
    """Count what a report says of attempts that are over: nothing follows from it, but somebody may want to know."""
    if shown.revision:
        with shown.reading() as snapshot:
            OLD_ATTEMPTS.inc(reports.overtaken(snapshot, report))


def live() -> AgentApp:
    """The application of this process, on its stores and its picture."""
    store = connections.store()
    renewals = Renewals(store, time.monotonic)
    shown = picture()

    def published(node: str) -> NodeReport | None:
        if not shown.revision:
            return None
        with shown.reading() as snapshot:
            found = snapshot.nodes.get(node)
            return found.report if found else None

    def changed(report: NodeReport) -> None:
        wakeups.tick.ring()
        count_old_attempts(shown, report)

    return AgentApp(
        Identities(time.monotonic),
        SyncDesk(store, renewals, published, time.monotonic),
        renewals,
        WaitingRoom(shown),
        changed,
        clock.now_ms,
        time.monotonic,
        Readings(connections.cache),
    )
