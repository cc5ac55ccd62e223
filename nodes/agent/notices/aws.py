"""AWS: the spot instance's end two minutes ahead, the advice to rebalance, and scheduled maintenance.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/viewing_scheduled_events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import aiohttp
import msgspec

from nodes.agent.notices.board import Board, keep_looking
from nodes.agent.notices.metadata import Answer, Metadata, MetadataError, expected, http_date_ms, iso_ms
from scheduler.core.types import Notice, NoticeKind

T = TypeVar("T")

EVERY_S = 5.0
SCHEDULE_EVERY_S = 60.0
MOST_S = 15.0
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
TOKEN_TTL_S = 21_600
ACTION_PATH = "/latest/meta-data/spot/instance-action"
REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
SCHEDULE_PATH = "/latest/meta-data/events/maintenance/scheduled"
SOON_MS = 3_600_000
"""Maintenance is announced weeks ahead; it concerns nobody before the last hour."""


class _Action(msgspec.Struct):
    action: str
    time: str


class _Rebalance(msgspec.Struct):
    noticeTime: str


class _Event(msgspec.Struct, rename="pascal"):
    event_id: str
    not_before: str
    state: str = "active"


class Aws:
    """Reads the instance metadata service, version 2."""

    def __init__(self, session: aiohttp.ClientSession, base: str, board: Board, now_ms: Callable[[], int]) -> None:
        self._server = Metadata(session, base)
        self._board = board
        self._now_ms = now_ms
        self._token = ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_looking(self._board, "aws/action", self._action, EVERY_S, MOST_S))
            tasks.create_task(keep_looking(self._board, "aws/rebalance", self._rebalance, EVERY_S, MOST_S))
            tasks.create_task(
                keep_looking(self._board, "aws/schedule", self._schedule, SCHEDULE_EVERY_S, SCHEDULE_EVERY_S)
            )

    async def _action(self) -> tuple[Notice, ...]:
        text = await self._read(ACTION_PATH)
        if text is None:
            return ()
        told = _decoded(text, _Action, ACTION_PATH)
        gone_at_ms = _moment(iso_ms, told.time, ACTION_PATH)
        return (Notice(NoticeKind.TERMINATE, f"aws-{told.action}-{gone_at_ms}"[:128], gone_at_ms),)

    async def _rebalance(self) -> tuple[Notice, ...]:
        text = await self._read(REBALANCE_PATH)
        if text is None:
            return ()
        at_ms = _moment(iso_ms, _decoded(text, _Rebalance, REBALANCE_PATH).noticeTime, REBALANCE_PATH)
        return (Notice(NoticeKind.REBALANCE, f"aws-rebalance-{at_ms}"),)

    async def _schedule(self) -> tuple[Notice, ...]:
        text = await self._read(SCHEDULE_PATH)
        notices = []
        for event in _decoded(text or "[]", list[_Event], SCHEDULE_PATH):
            begins_ms = _moment(http_date_ms, event.not_before, SCHEDULE_PATH)
            if event.state == "active" and begins_ms - self._now_ms() <= SOON_MS:
                notices.append(Notice(NoticeKind.MAINTENANCE, f"aws-{event.event_id}"[:128], begins_ms))
        return tuple(notices)

    async def _read(self, path: str) -> str | None:
        """The text at ``path``, None where there is none. A token that has run out is replaced once."""
        answer = await self._ask(path, fresh=not self._token)
        if answer.status == 401:
            answer = await self._ask(path, fresh=True)
        return None if answer.status == 404 else expected(answer, path)

    async def _ask(self, path: str, fresh: bool) -> Answer:
        if fresh:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_TTL_S)}
            token = expected(await self._server.ask("PUT", TOKEN_PATH, headers), TOKEN_PATH).strip()
            if not token.isascii() or not token.isprintable():
                raise MetadataError(f"{TOKEN_PATH}: no token")
            self._token = token
        return await self._server.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})


def _decoded(text: str, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise MetadataError(f"{path}: {error}") from error


def _moment(read: Callable[[str], int], text: str, path: str) -> int:
    try:
        return read(text)
    except (ValueError, TypeError, OverflowError) as error:
        raise MetadataError(f"{path}: {text[:40]!r} is no time") from error
