"""Ships what ranks write to the control plane, piece by piece. See docs/design/010-checkpoints-and-logs.md.

Nothing is kept on disk here: after a restart the control plane says from where to go on. A control plane that is away
costs time, a rank that writes faster than is shipped loses the middle of its log; neither ever waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from nodes.agent.client import NotRegistered, Rejected, Unreachable
from nodes.agent.output import Output
from nodes.protocol import LogPiece, LogsAnswer, LogsRequest, LogState, LogTaken

log = structlog.get_logger(__name__)

PIECE = 512 * 1024
"""Bytes that a piece has at most. A request with half of that is full."""
REQUESTS = 16
"""Requests that may follow each other at once."""
BEHIND = 16 * 1024 * 1024
"""A log that is further behind is skipped ahead by half of that."""
AT_HAND = 1024 * 1024
"""Bytes of what is shipped that stay on the host, for whoever looks there."""
LOOK_EVERY_S = 1.0
AGAIN_FROM_S, AGAIN_TO_S = 1.0, 60.0

Key = tuple[str, int, int]


@dataclass(slots=True)
class _Followed:
    """The log of one rank. ``next`` is None until the control plane has said where to go on."""

    output: Output
    next: int | None = None
    kept: int = 0
    ended: bool = False
    done: bool = False


class Shipper:
    """The logs of a node's ranks. One task uses it.

    Args:
        send: hands a request to the control plane; raises what ``Client.logs`` raises.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[LogsRequest], Awaitable[LogsAnswer]],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._node = node
        self._send = send
        self._monotonic_s = monotonic_s
        self._followed: dict[Key, _Followed] = {}
        self._every_s = LOOK_EVERY_S
        self._due_s = 0.0
        self._pause_s = 0.0

    def follow(self, job: str, attempt: int, rank: int, path: Path) -> None:
        """Ship what the rank appends to ``path``, which may come to be later. Said again, nothing changes."""
        self._followed.setdefault((job, attempt, rank), _Followed(Output(path)))

    def ended(self, job: str, attempt: int, rank: int) -> None:
        """The rank writes no more."""
        self._followed[job, attempt, rank].ended = True

    def drained(self, job: str, attempt: int) -> bool:
        """Whether nothing is left to ship of the attempt's ranks."""
        return all(one.done for (of, number, _), one in self._followed.items() if (of, number) == (job, attempt))

    def forget(self, job: str, attempt: int) -> None:
        """The files of the attempt are going to be removed."""
        self._followed = {key: one for key, one in self._followed.items() if key[:2] != (job, attempt)}

    async def run(self) -> None:
        """Ship for ever, until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(LOOK_EVERY_S)

    async def step(self) -> None:
        """Ship what is due now."""
        now_s = self._monotonic_s()
        self._skip_ahead()
        if now_s < self._due_s and (self._pause_s or not self._urgent()):
            return
        try:
            await self._ship()
        except (Unreachable, NotRegistered, Rejected, OSError) as error:
            if not self._pause_s:
                log.warning("the logs of ranks wait on the host", node=self._node, error=str(error))
            self._pause_s = min(max(AGAIN_FROM_S, 2 * self._pause_s), AGAIN_TO_S)
            self._due_s = now_s + self._pause_s
        else:
            self._pause_s = 0.0
            self._due_s = now_s + self._every_s

    def _urgent(self) -> bool:
        """A log that is new or complete does not wait for its turn; neither does one that would soon be cut."""
        return any(
            not one.done and (one.next is None or one.ended or one.output.size() - one.kept > BEHIND // 4)
            for one in self._followed.values()
        )

    def _skip_ahead(self) -> None:
        for one in self._followed.values():
            size = one.output.size()
            if one.done:
                one.output.give_back(size - AT_HAND)
            elif one.next is not None and size - one.kept > BEHIND:
                one.next = one.kept = size - BEHIND // 2
            if one.next is not None:
                one.output.give_back(one.next - AT_HAND)

    async def _ship(self) -> None:
        """Send until nothing is left, or it was much."""
        for _ in range(REQUESTS):
            pieces = self._pieces()
            if not pieces:
                return
            answer = await self._send(LogsRequest(self._node, tuple(pieces)))
            self._every_s = max(LOOK_EVERY_S, answer.every_s)
            moved = [self._take(*both) for both in zip(pieces, answer.taken, strict=True)]
            if not any(moved):
                return

    def _pieces(self) -> list[LogPiece]:
        """One piece of each log of which there is something to say, as many as fit in a request."""
        pieces, size = [], 0
        for key in list(self._followed):
            piece = self._piece(key)
            if piece is None:
                continue
            # Whoever was served goes to the end, so that a loud rank leaves room for the others.
            self._followed[key] = self._followed.pop(key)
            pieces.append(piece)
            size += len(piece.data)
            if size >= PIECE // 2:
                break
        return pieces

    def _piece(self, key: Key) -> LogPiece | None:
        one = self._followed[key]
        if one.done:
            return None
        if one.next is None:
            return LogPiece(*key, 0)
        ended = one.ended
        if one.output.size() <= one.kept and not ended:
            return None
        start, data = one.output.read(one.next, PIECE)
        return LogPiece(*key, start, data, ended and start + len(data) >= one.output.size())

    def _take(self, piece: LogPiece, taken: LogTaken) -> bool:
        """Take in what became of a piece. Whether there may be more to say of this log at once."""
        one = self._followed.get((piece.job, piece.attempt, piece.rank))
        if one is None or taken.state is LogState.LATER:
            return False
        if taken.state is LogState.REFUSED:
            log.warning("a log is not wanted", job=piece.job, rank=piece.rank, why=taken.why)
        one.done = piece.over or taken.state is LogState.REFUSED
        asked = one.next is None
        # Never behind what was skipped on purpose.
        one.kept = max(one.kept, taken.kept)
        one.next = taken.next if one.next is None else max(one.next, taken.next)
        return not one.done and (asked or one.output.size() > one.kept)
