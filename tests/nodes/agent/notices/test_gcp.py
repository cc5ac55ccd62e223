"""GCP: half a minute's notice and maintenance, by long polls; what makes no sense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from nodes.agent.notices.board import Board
from nodes.agent.notices.gcp import PATH
from tests.nodes.agent.notices.server import NOW_MS, Server, kinds, only, played, until

PREEMPTED, MAINTENANCE = f"{PATH}preempted", f"{PATH}maintenance-event"


class Value:
    """A value as the real server serves it: with a tag, held until it changes for those who wait."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.changed = asyncio.Event()
        self.waited = 0

    def set(self, text: str) -> None:
        self.text = text
        self.changed.set()
        self.changed = asyncio.Event()

    async def __call__(self, request: Any) -> web.Response:
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403)
        if request.query.get("wait_for_change") == "true" and request.query.get("last_etag") == self.tag:
            self.waited += 1
            await self.changed.wait()
        return web.Response(text=f"{self.text}\n", headers={"ETag": self.tag})

    @property
    def tag(self) -> str:
        return self.text.encode().hex()


def values(server: Server) -> tuple[Value, Value]:
    preempted, maintenance = Value("FALSE"), Value("NONE")
    server.paths |= {PREEMPTED: preempted, MAINTENANCE: maintenance}
    return preempted, maintenance


def test_preempted_leaves_half_a_minute_from_when_it_was_seen() -> None:
    async def script(server: Server, board: Board) -> None:
        preempted, _ = values(server)
        await until(lambda: preempted.waited)
        assert board.current == ()
        preempted.set("TRUE")
        await until(lambda: board.current)
        assert (kinds(board), board.gone_at_ms) == (["terminate"], NOW_MS + 30_000)
        assert preempted.waited <= 2, "it is asked once a change, not again and again"

    played("gcp", script)


@pytest.mark.parametrize(
    ("value", "kind", "gone_at_ms"),
    [
        pytest.param("TERMINATE_ON_HOST_MAINTENANCE", "maintenance", NOW_MS + 3_600_000, id="stops it in an hour"),
        pytest.param("MIGRATE_ON_HOST_MAINTENANCE", "freeze", None, id="lets it stand still"),
    ],
)
def test_maintenance_is_a_hint_until_it_is_over(value: str, kind: str, gone_at_ms: int | None) -> None:
    async def script(server: Server, board: Board) -> None:
        _, maintenance = values(server)
        await until(lambda: maintenance.waited)
        maintenance.set(value)
        await until(lambda: board.current)
        assert (only(board).kind.value, only(board).gone_at_ms) == (kind, gone_at_ms)
        assert board.gone_at_ms is None
        maintenance.set("NONE")
        await until(lambda: not board.current)

    played("gcp", script)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((200, "MAYBE"), id="a word that is none"),
        pytest.param((200, "x" * 1_000_000), id="without end"),
        pytest.param((404, ""), id="not there"),
        pytest.param((503, "TRUE"), id="an error that says yes"),
    ],
)
def test_what_makes_no_sense_is_counted_and_changes_nothing(answer: tuple[int, str]) -> None:
    async def script(server: Server, board: Board) -> None:
        server.paths |= {PREEMPTED: answer, MAINTENANCE: answer}
        await until(lambda: board.errors["gcp/preempted"] > 2 and board.errors["gcp/maintenance"] > 2)
        assert board.current == ()
        server.paths[PREEMPTED] = (200, "TRUE")
        await until(lambda: board.gone_at_ms)

    played("gcp", script)
