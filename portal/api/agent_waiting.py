"""Where syncs wait for news: the long poll's half that lives in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from portal.api.agent_orders import OrderBook, Orders
from scheduler.picture import Picture


class WaitingRoom:
    """Requests that wait until their node's orders differ from those that the agent holds; at most one a node.

    ``revision`` is that of the picture which every answer reflects.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._book: OrderBook | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: dict[str, asyncio.Future[bool]] = {}
        self._behind: set[str] = set()
        """The nodes whose agents have seen a later picture than ours."""
        self._dismissed = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to follow the picture, waking waiters in ``loop``."""
        self._loop = loop
        self._book = OrderBook(self._picture, self._notify)

    def dismiss(self) -> None:
        """Let everybody go without news, now and whoever still comes."""
        self._dismissed = True
        self.release(list(self._waiters))

    def close(self) -> None:
        """Follow the picture no more."""
        self.book.close()

    @property
    def book(self) -> OrderBook:
        if self._book is None:
            raise RuntimeError("the waiting room is not open")
        return self._book

    @property
    def revision(self) -> int:
        return self.book.revision

    async def wait(self, node: str, known: str, revision: int, timeout_s: float) -> Orders | None:
        """The node's orders once they are not those named ``known``, or None when those still stand at the end.

        Orders of a picture older than ``revision``, which the agent has seen, are never answered: another process has
        told it more than this one knows. A newer request of the same node ends the wait of this one.

        Raises:
            StoreUnavailable: the live state was never loaded, so nobody knows what should be on the node.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        self.release([node])
        while True:
            orders = self.book.of(node)
            behind = self.book.revision < revision
            if not behind and orders.hash != known:
                return orders
            if self._dismissed or loop.time() >= ends or not await self._news(loop, node, behind, ends):
                return None

    async def _news(self, loop: asyncio.AbstractEventLoop, node: str, behind: bool, ends: float) -> bool:
        """Wait until the node's orders may have changed; False when the wait is over without."""
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters[node] = waiter
        if behind:
            self._behind.add(node)
        timer = loop.call_at(ends, _resolve, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            if self._waiters.get(node) is waiter:
                del self._waiters[node]
                self._behind.discard(node)

    def release(self, nodes: Iterable[str]) -> None:
        """Let the requests of these nodes go without news."""
        for node in nodes:
            waiter = self._waiters.get(node)
            if waiter is not None:
                _resolve(waiter, False)

    def _notify(self, changed: frozenset[str]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._wake, changed)

    def _wake(self, changed: frozenset[str]) -> None:
        for node in changed | self._behind:
            waiter = self._waiters.get(node)
            if waiter is not None:
                _resolve(waiter, True)


def _resolve(waiter: asyncio.Future[bool], news: bool) -> None:
    if not waiter.done():
        waiter.set_result(news)
