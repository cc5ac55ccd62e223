"""What one kind of socket shows, computed once a process however many sockets are open.

A *board* holds what is shown. The feed's task alone touches it: it takes in what the picture's thread reports, at most
once an interval, and hands each subscriber the same message. So every delta starts where the message before it ended,
and the snapshot that a newcomer gets is exactly what the next delta starts from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import msgspec
import structlog

from scheduler.picture import Picture, Touched
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)

PULSE_S = 5.0
"""A sign of life is sent this often where nothing changes; a page that hears nothing for longer says so."""
BACKLOG = 16
"""Messages that a slow reader may fall behind by before it is given a new snapshot instead."""


class Board(Protocol):
    """``load`` and ``take`` run in a thread, one at a time. Payloads are JSON values."""

    def load(self) -> int:
        """Show the picture as it is now; answers its revision. Raises StoreUnavailable if there is none yet."""

    def take(self, touched: Touched) -> tuple[int, dict[str, Any] | None]:
        """Take in what was touched; answers the revision shown and the change, None if nothing shown has changed."""

    def snapshot(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Message:
    """``kind`` is snapshot, delta, stale or pulse. ``before`` is the revision that a delta starts from."""

    kind: str
    revision: int
    payload: dict[str, Any] = field(default_factory=dict)
    before: int | None = None

    def as_text(self, payload: dict[str, Any]) -> str:
        head: dict[str, Any] = {"type": self.kind, "revision": self.revision}
        if self.before is not None:
            head["from"] = self.before
        return msgspec.json.encode(head | payload).decode()

    @cached_property
    def text(self) -> str:
        return self.as_text(self.payload)


class Subscription:
    """One reader's messages, in order. A reader that falls too far behind loses them all and gets a snapshot."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._some = asyncio.Event()
        self.wants_snapshot = True

    def put(self, message: Message) -> None:
        if len(self._waiting) >= BACKLOG:
            self._waiting.clear()
            self.wants_snapshot = True
            return
        self._waiting.append(message)
        self._some.set()

    async def next(self) -> Message:
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        return self._waiting.popleft()


class Feed:
    """Runs while it has subscribers. ``interval_s`` is the least time between two messages to the same reader."""

    def __init__(self, picture: Picture, board: Board, interval_s: float) -> None:
        self._picture = picture
        self._board = board
        self._interval_s = interval_s
        self._subscribers: set[Subscription] = set()
        self._touched: list[Touched] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] | None = None
        self._revision = 0
        self._shown = False

    @property
    def idle(self) -> bool:
        return not self._subscribers

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        self._subscribers.add(subscription)
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._unlisten = self._picture.listen(lambda touched: self._hear(loop, touched))
            self._shown = False
            self._task = loop.create_task(self._run())
        self._wake.set()
        return subscription

    def resync(self, subscription: Subscription) -> None:
        """The reader says that it missed something."""
        subscription.wants_snapshot = True
        self._wake.set()

    async def unsubscribe(self, subscription: Subscription) -> None:
        self._subscribers.discard(subscription)
        if self._subscribers or self._task is None:
            return
        task, self._task = self._task, None
        if self._unlisten is not None:
            self._unlisten()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def _hear(self, loop: asyncio.AbstractEventLoop, touched: Touched) -> None:
        """In the picture's thread."""
        with suppress(RuntimeError):  # the loop is closed: so are its sockets
            loop.call_soon_threadsafe(self._note, touched)

    def _note(self, touched: Touched) -> None:
        self._touched.append(touched)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._wake.wait(), PULSE_S)
            except TimeoutError:
                if self._shown and self._picture.fresh:
                    self._publish(Message("pulse", self._revision))
                    continue
            self._wake.clear()
            await self._step()
            await asyncio.sleep(self._interval_s)

    async def _step(self) -> None:
        """Show what is new, or that there is nothing trustworthy to show; the next pulse tries again then."""
        touched, self._touched = self._touched, []
        try:
            if self._picture.fresh:
                await self._show(touched)
                return
        except StoreUnavailable:
            log.info("a live view has nothing to show yet", board=type(self._board).__name__)
        except Exception:
            # One bad record must not end the view for as long as the process lives: it says stale and loads afresh.
            log.exception("a live view could not take in a change", board=type(self._board).__name__)
        self._shown = False
        self._publish(Message("stale", self._revision, {"since_ms": self._picture.stale_since_ms}))

    async def _show(self, touched: list[Touched]) -> None:
        if not self._shown or any(one.everything for one in touched):
            self._revision = await asyncio.to_thread(self._board.load)
            self._shown = True
            for subscription in self._subscribers:
                subscription.wants_snapshot = True
        elif touched:
            before = self._revision
            self._revision, change = await asyncio.to_thread(self._board.take, merged(touched))
            if change is not None:
                self._publish(Message("delta", self._revision, change, before))
            else:
                self._revision = before
        self._greet()

    def _greet(self) -> None:
        """A snapshot for those who have none."""
        behind = [one for one in self._subscribers if one.wants_snapshot]
        if not behind:
            return
        message = Message("snapshot", self._revision, self._board.snapshot())
        for subscription in behind:
            subscription.wants_snapshot = False
            subscription.put(message)

    def _publish(self, message: Message) -> None:
        for subscription in self._subscribers:
            if message.kind != "delta" or not subscription.wants_snapshot:
                subscription.put(message)


def merged(touched: list[Touched]) -> Touched:
    """What several changes touched together, at the last one's revision."""
    return Touched(
        revision=touched[-1].revision,
        jobs=frozenset().union(*(one.jobs for one in touched)),
        nodes=frozenset().union(*(one.nodes for one in touched)),
        quota=any(one.quota for one in touched),
        reservations=any(one.reservations for one in touched),
        everything=any(one.everything for one in touched),
    )
