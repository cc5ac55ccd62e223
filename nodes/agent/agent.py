"""One node's agent: say what is, hear what should be, see to it, for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Protocol

import structlog

from nodes.agent.client import Client, NotRegistered, Rejected, Unreachable
from nodes.agent.duty import Duty
from nodes.agent.observed import Host, NoHost
from nodes.agent.simulated import Stepped
from nodes.agent.state import Membership
from nodes.protocol import Inventory, RegisterRequest, SyncAnswer, SyncRequest, digest, encode
from scheduler.core.types import ENDED_RANK, Assignment, NodeReport

log = structlog.get_logger(__name__)

FIRST_WAIT_S = 10.0
"""How long the first request may wait; each answer says it anew."""
GRACE_S = 5.0
"""What an answer may take beyond the wait that was asked for."""
BACKOFF_FROM_S, BACKOFF_TO_S = 0.25, 10.0
WATCH_S = 0.5
"""How often running ranks are looked at while a request waits."""
REPLACED = "urn:gangway:problem:old_boot"


class Executor(Protocol):
    """What runs the ranks of a node; level-triggered."""

    def step(self, assignments: Sequence[Assignment], now_ms: int) -> Stepped:
        """Obey the assignments and say what is, and when something will happen by itself."""

    def holder(self, gpu: int) -> tuple[str, int] | None:
        """The job and attempt of which a rank has the GPU; None where none has."""


class Agent:
    """The agent of one node.

    Args:
        join_token: lets the node join if it is new.
        now_ms, monotonic_ms: the wall clock, which the executor is told, and one that never steps back.
        random: spreads the tries of many agents.
        duty: the orders in force, with what is remembered of them from an earlier life.
        keep: called whenever ``duty`` or ``membership`` may have changed, before anything is done about it.
        host: what is known of the host beside the ranks.

    ``membership`` and ``duty`` are changed in place.
    """

    def __init__(
        self,
        inventory: Inventory,
        membership: Membership,
        boot_id: str,
        join_token: str,
        client: Client,
        executor: Executor,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        random: Random,
        duty: Duty | None = None,
        keep: Callable[[], None] = lambda: None,
        host: Host | None = None,
    ) -> None:
        self._inventory = inventory
        self._inventory_hash = digest(encode(inventory))
        self._membership = membership
        self._boot_id = boot_id
        self._join_token = join_token
        self._client = client
        self._executor = executor
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._random = random
        self._duty = duty or Duty()
        self._keep = keep
        self._host = host or NoHost()
        self._host.listen(self._interrupt)
        self._news: asyncio.Future[None] | None = None
        self._acknowledged: frozenset[str] = frozenset()
        self._sequence = 0
        self._misses = 0
        self._heard = False
        self._wait_s = FIRST_WAIT_S
        self._interrupted = False
        """The last request was given up for the sake of news, which have to be heard and answered first."""
        self._stepped = Stepped((), None)

    @property
    def node(self) -> str:
        return self._inventory.name

    def vacated(self, notice: str) -> bool:
        """Whether the control plane has heard of this notice, wants nothing on the node, and no rank is left here."""
        living = any(rank.state not in ENDED_RANK for gang in self._stepped.gangs for rank in gang.ranks)
        return notice in self._acknowledged and not self._duty.assignments and not living

    def _interrupt(self) -> None:
        """The host has something to say that should not wait for an answer."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def join(self) -> None:
        """Register, if need be, and make the first sync, which does not wait.

        Raises:
            Rejected: as in ``run``.
        """
        self._wait_s = 0.0
        while not self._heard:
            await self._turn()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            Rejected: a later boot of this node's agent has taken over; the ranks of this one have been stopped.
        """
        while True:
            await self._turn()

    async def _turn(self) -> None:
        """See to the ranks, then ask once; after a failure, wait before the next try."""
        self._step()
        is_member = self._membership.registered == self._inventory_hash
        try:
            await (self._sync() if is_member else self._register())
            self._misses = 0
        except NotRegistered:
            self._membership.registered = ""
            await self._back_off()
        except (Unreachable, Rejected) as error:
            if isinstance(error, Rejected) and error.kind == REPLACED:
                self._executor.step((), self._now_ms())
                raise
            if self._misses == 1:
                # Not of the first miss: a control plane that restarts is back before the second.
                log.warning("the control plane is of no help now", node=self.node, error=str(error))
            await self._back_off()

    def _step(self) -> None:
        """See to the orders in force. Out of touch for a whole lease, there are none: the ranks must be gone before
        another attempt may start elsewhere."""
        if self._duty.out_of_touch(self._monotonic_ms()):
            log.warning("out of touch for longer than the lease: stopping every rank", node=self.node)
            self._duty.abandon()
            self._keep()
        self._stepped = self._executor.step(self._duty.assignments, self._now_ms())

    async def _register(self) -> None:
        request = RegisterRequest(self._inventory, self._join_token)
        await self._client.register(request, self._membership.token)
        self._membership.registered = self._inventory_hash
        self._keep()

    async def _sync(self) -> None:
        self._sequence += 1
        wait_s = 0.0 if self._interrupted else min(self._wait_s, self._until_wake_s())
        request = SyncRequest(
            node=self.node,
            sequence=self._sequence,
            report=self._host.observed().on(NodeReport(self._boot_id, self._stepped.gangs)),
            known=self._duty.known,
            revision=self._duty.revision,
            wait_s=wait_s,
            telemetry=self._host.telemetry(),
        )
        sent_ms = self._monotonic_ms()
        answer = await self._ask(request, wait_s)
        self._interrupted = answer is None
        if answer is None:
            return
        self._heard = True
        self._wait_s = answer.wait_s
        self._acknowledged = frozenset(notice.id for notice in request.report.notices)
        for refused in self._duty.take(answer, sent_ms):
            log.warning("an order is refused", node=self.node, why=refused.refusal, job=refused.job)
        self._keep()

    async def _ask(self, request: SyncRequest, wait_s: float) -> SyncAnswer | None:
        """The answer; None where the ranks or the host changed while it was waited for: that has to be told first.

        A request that tells of such a change does not wait, and is not given up itself. Else ranks that change often
        would keep the agent from ever hearing that its lease was renewed.
        """
        asking = asyncio.ensure_future(self._client.sync(request, self._membership.token, self._timeout_s(wait_s)))
        news = self._news = asyncio.get_running_loop().create_future()
        try:
            while not self._interrupted:
                watch_s = WATCH_S if self._stepped.watch else None
                await asyncio.wait([asking, news], timeout=watch_s, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    break
                if news.done():
                    return None
                told = self._stepped.gangs
                self._step()
                if self._stepped.gangs is not told:
                    return None
            return await asking
        finally:
            asking.cancel()

    async def _back_off(self) -> None:
        """Wait before the next try, longer each time, while time goes on for the ranks."""
        most_s = min(BACKOFF_TO_S, BACKOFF_FROM_S * 2**self._misses)
        self._misses = min(self._misses + 1, 16)
        next_ms = self._monotonic_ms() + int(1000 * most_s * self._random.uniform(0.5, 1.0))
        while (left_ms := next_ms - self._monotonic_ms()) > 0:
            await asyncio.sleep(min(left_ms / 1000, self._until_wake_s(), self._until_out_of_touch_s()))
            self._step()

    def _timeout_s(self, wait_s: float) -> float:
        """An answer that comes after the lease has ended comes too late to go on meanwhile."""
        return min(wait_s + GRACE_S, self._until_out_of_touch_s())

    def _until_wake_s(self) -> float:
        if self._stepped.wake_ms is None:
            return inf
        return max(0.001, (self._stepped.wake_ms - self._now_ms()) / 1000)

    def _until_out_of_touch_s(self) -> float:
        if self._duty.held_until_ms is None:
            return inf
        return max(0.001, (self._duty.held_until_ms - self._monotonic_ms()) / 1000)
