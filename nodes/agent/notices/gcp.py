"""GCP: the spot instance's end half a minute ahead, and maintenance of the machine below it.

https://cloud.google.com/compute/docs/instances/create-use-preemptible#handle_preemption
https://cloud.google.com/compute/docs/metadata/getting-live-migration-notice
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from nodes.agent.notices.board import Board, keep_looking
from nodes.agent.notices.metadata import Metadata, MetadataError, expected
from scheduler.core.types import Notice, NoticeKind

PATH = "/computeMetadata/v1/instance/"
FLAVOR = {"Metadata-Flavor": "Google"}
WAIT_S = 60
PREEMPTION_MS = 30_000
MAINTENANCE_MS = 3_600_000
"""Machines with GPUs are told an hour ahead of the maintenance for which they are stopped."""
PAUSE_S = 0.2
"""Between two long polls, for the sake of a server that does not wait."""
MOST_S = 5.0


class _Value:
    """One value of the metadata server, watched by long polls."""

    def __init__(self, server: Metadata, name: str) -> None:
        self._server = server
        self._name = name
        self._etag = ""

    async def next(self) -> str:
        """The value now, the first time; then, once it has changed or a minute has passed, the value by then."""
        wait = f"?wait_for_change=true&timeout_sec={WAIT_S}&last_etag={self._etag}" if self._etag else ""
        answer = await self._server.ask("GET", PATH + self._name + wait, FLAVOR, timeout_s=WAIT_S + 5 if wait else 2)
        text = expected(answer, self._name).strip()
        etag = answer.headers.get("ETag", "")
        # Without a tag to wait from, each poll is a plain one, a little later.
        self._etag = etag if etag.isalnum() else ""
        return text


class Gcp:
    """Reads the metadata server of Compute Engine. What it says has no time of its own: it counts from when it was
    first seen."""

    def __init__(self, session: aiohttp.ClientSession, base: str, board: Board, now_ms: Callable[[], int]) -> None:
        server = Metadata(session, base)
        self._preempted = _Value(server, "preempted")
        self._maintenance = _Value(server, "maintenance-event")
        self._board = board
        self._now_ms = now_ms
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_looking(self._board, "gcp/preempted", self._look_at_end, PAUSE_S, MOST_S))
            tasks.create_task(keep_looking(self._board, "gcp/maintenance", self._look_at_work, PAUSE_S, MOST_S))

    async def _look_at_end(self) -> tuple[Notice, ...]:
        match await self._preempted.next():
            case "TRUE":
                gone_at_ms = self._since("preempted") + PREEMPTION_MS
                return (Notice(NoticeKind.TERMINATE, "gcp-preempted", gone_at_ms),)
            case "FALSE":
                self._seen.pop("preempted", None)
                return ()
            case other:
                raise MetadataError(f"preempted is {other[:40]!r}")

    async def _look_at_work(self) -> tuple[Notice, ...]:
        match await self._maintenance.next():
            case "NONE":
                self._seen.pop("maintenance", None)
                return ()
            case "TERMINATE_ON_HOST_MAINTENANCE":
                seen_ms = self._since("maintenance")
                return (Notice(NoticeKind.MAINTENANCE, f"gcp-maintenance-{seen_ms}", seen_ms + MAINTENANCE_MS),)
            case "MIGRATE_ON_HOST_MAINTENANCE":
                return (Notice(NoticeKind.FREEZE, f"gcp-migration-{self._since('maintenance')}"),)
            case other:
                raise MetadataError(f"maintenance-event is {other[:40]!r}")

    def _since(self, what: str) -> int:
        return self._seen.setdefault(what, self._now_ms())
