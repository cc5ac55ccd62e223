"""Azure: scheduled events. Acknowledging one lets it happen at once, to every machine that it names.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
import msgspec
import structlog

from nodes.agent.notices.board import Board, keep_looking
from nodes.agent.notices.metadata import Metadata, MetadataError, expected, http_date_ms
from scheduler.core.types import Notice, NoticeKind

log = structlog.get_logger(__name__)

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
HEADERS = {"Metadata": "true"}
EVERY_S = 1.0
MOST_S = 5.0
FIRST_TIMEOUT_S = 120.0
"""The first request of all turns the service on for the machine, which takes up to two minutes."""
KINDS = {
    "Preempt": NoticeKind.TERMINATE,
    "Terminate": NoticeKind.TERMINATE,
    "Reboot": NoticeKind.MAINTENANCE,
    "Redeploy": NoticeKind.MAINTENANCE,
    "Freeze": NoticeKind.FREEZE,
}


class _Event(msgspec.Struct, rename="pascal"):
    event_id: str
    event_type: str
    event_status: str = "Scheduled"
    resources: tuple[str, ...] = ()
    not_before: str = ""


class _Document(msgspec.Struct, rename="pascal"):
    events: tuple[_Event, ...]


class Azure:
    """Reads scheduled events, and acknowledges those of this machine alone once nothing is left on it.

    ``vacated`` has to have said so twice running: an order that was on its way meanwhile has arrived by then.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base: str,
        board: Board,
        now_ms: Callable[[], int],
        vacated: Callable[[str], bool],
        resource: str,
    ) -> None:
        self._server = Metadata(session, base)
        self._board = board
        self._now_ms = now_ms
        self._vacated = vacated
        self._resource = resource
        self._timeout_s = FIRST_TIMEOUT_S
        self._seen: dict[str, int] = {}
        self._empty: dict[str, int] = {}
        self._acknowledged: set[str] = set()

    async def run(self) -> None:
        await keep_looking(self._board, "azure/events", self._look, EVERY_S, MOST_S)

    async def _look(self) -> tuple[Notice, ...]:
        text = expected(await self._server.ask("GET", PATH, HEADERS, timeout_s=self._timeout_s), "scheduled events")
        self._timeout_s = 5.0
        try:
            document = msgspec.json.decode(text, type=_Document)
        except msgspec.MsgspecError as error:
            raise MetadataError(f"scheduled events: {error}") from error
        ours = [event for event in document.events if self._concerns(event)]
        self._forget({event.event_id for event in ours})
        notices = tuple(self._notice(event) for event in ours)
        self._board.put("azure/events", notices)
        for event, notice in zip(ours, notices, strict=True):
            await self._let_go(event, notice)
        return notices

    def _concerns(self, event: _Event) -> bool:
        known = event.event_type in KINDS and event.event_status in ("Scheduled", "Started")
        return known and (not self._resource or self._resource in event.resources)

    def _notice(self, event: _Event) -> Notice:
        gone_at_ms = self._seen.setdefault(event.event_id, self._now_ms())
        if event.not_before:
            try:
                gone_at_ms = http_date_ms(event.not_before)
            except (ValueError, TypeError, OverflowError) as error:
                raise MetadataError(f"NotBefore is {event.not_before[:40]!r}") from error
        return Notice(KINDS[event.event_type], f"azure-{event.event_id}"[:128], gone_at_ms)

    async def _let_go(self, event: _Event, notice: Notice) -> None:
        """Acknowledge the event if nothing is left to save. What names other machines too is not ours to let go."""
        if event.event_status != "Scheduled" or len(event.resources) != 1 or notice.kind is NoticeKind.FREEZE:
            return
        if event.event_id in self._acknowledged:
            return
        self._empty[event.event_id] = self._empty.get(event.event_id, 0) + 1 if self._vacated(notice.id) else 0
        if self._empty[event.event_id] < 2:
            return
        body = msgspec.json.encode({"StartRequests": [{"EventId": event.event_id}]})
        expected(await self._server.ask("POST", PATH, HEADERS, body, timeout_s=5.0), "acknowledgement")
        self._acknowledged.add(event.event_id)
        log.info("the host is empty: its provider may go on", event_id=event.event_id)

    def _forget(self, standing: set[str]) -> None:
        """Drop what is known of events that are over."""
        self._seen = {name: at for name, at in self._seen.items() if name in standing}
        self._empty = {name: times for name, times in self._empty.items() if name in standing}
        self._acknowledged &= standing
