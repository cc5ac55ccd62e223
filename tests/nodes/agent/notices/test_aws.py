"""AWS: two minutes' notice, rebalance, scheduled maintenance; the token; what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from nodes.agent.notices.aws import ACTION_PATH, REBALANCE_PATH, SCHEDULE_PATH, TOKEN_PATH
from nodes.agent.notices.board import Board
from scheduler.core.types import Notice, NoticeKind
from tests.nodes.agent.notices.server import NOW_MS, Server, kinds, only, played, until

ACTION = (200, '{"action": "terminate", "time": "2017-09-18T08:22:00Z"}')
ACTION_MS = 1_505_722_920_000


def with_token(server: Server) -> None:
    server.paths[TOKEN_PATH] = (200, "a-token")


def test_nothing_stands_where_there_is_no_notice() -> None:
    async def script(server: Server, board: Board) -> None:
        with_token(server)
        await until(lambda: server.count(ACTION_PATH) > 2 and server.count(REBALANCE_PATH) > 2)
        assert board.current == ()
        assert not board.errors

    played("aws", script)


def test_an_instance_action_is_the_end_of_the_host_at_its_time() -> None:
    async def script(server: Server, board: Board) -> None:
        with_token(server)
        server.paths[ACTION_PATH] = ACTION
        await until(lambda: board.current)
        assert only(board) == Notice(NoticeKind.TERMINATE, f"aws-terminate-{ACTION_MS}", ACTION_MS)
        assert board.gone_at_ms == ACTION_MS

    played("aws", script)


def test_a_rebalance_is_a_hint_and_no_end() -> None:
    async def script(server: Server, board: Board) -> None:
        with_token(server)
        server.paths[REBALANCE_PATH] = (200, '{"noticeTime": "2020-10-27T08:22:00Z"}')
        await until(lambda: board.current)
        assert (kinds(board), board.gone_at_ms) == (["rebalance"], None)

    played("aws", script)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param({}, ["maintenance"], id="within the hour"),
        pytest.param({"NotBefore": "21 Jan 2099 09:00:43 GMT"}, [], id="far ahead"),
        pytest.param({"State": "canceled"}, [], id="canceled"),
    ],
)
def test_scheduled_maintenance_concerns_us_in_the_last_hour(event: dict[str, str], expected: list[str]) -> None:
    fields = {"NotBefore": "15 Jan 2027 08:30:00 GMT", "Code": "system-reboot", "EventId": "e-1", "State": "active"}
    written = ", ".join(f'"{name}": "{value}"' for name, value in {**fields, **event}.items())

    async def script(server: Server, board: Board) -> None:
        with_token(server)
        server.paths[SCHEDULE_PATH] = (200, f"[{{{written}}}]")
        await until(lambda: server.count(SCHEDULE_PATH) > 1)
        assert kinds(board) == expected

    assert NOW_MS == 1_800_000_000_000
    played("aws", script)


def test_every_look_carries_the_token_and_one_that_has_run_out_is_replaced() -> None:
    async def script(server: Server, board: Board) -> None:
        tokens = iter(["first", "second"])
        valid = ["first"]

        async def token(_: Any) -> Any:
            return web.Response(text=next(tokens))

        async def action(request: Any) -> Any:
            if request.headers.get("X-aws-ec2-metadata-token") not in valid:
                return web.Response(status=401)
            return web.Response(text=ACTION[1])

        server.paths |= {TOKEN_PATH: token, ACTION_PATH: action}
        await until(lambda: board.current)
        valid[:] = ["second"]
        looks = server.count(ACTION_PATH)
        await until(lambda: server.count(ACTION_PATH) > looks + 3)
        assert board.gone_at_ms == ACTION_MS
        asked = [headers for method, path, headers, _ in server.asked if (method, path) == ("PUT", TOKEN_PATH)]
        assert asked[0]["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"

    played("aws", script)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((200, ""), id="empty"),
        pytest.param((200, "<html>"), id="no JSON"),
        pytest.param((200, '{"action": "terminate"}'), id="without a time"),
        pytest.param((200, '{"action": "terminate", "time": "soon"}'), id="with a time that is none"),
        pytest.param((200, '{"action": 7, "time": "2017-09-18T08:22:00Z"}'), id="of other types"),
        pytest.param((200, "[" * 100_000), id="nested without end"),
        pytest.param((500, "oops"), id="an error"),
        pytest.param((302, ""), id="a redirect"),
    ],
)
def test_what_makes_no_sense_is_counted_and_changes_nothing(answer: tuple[int, str]) -> None:
    async def script(server: Server, board: Board) -> None:
        with_token(server)
        server.paths[ACTION_PATH] = ACTION
        await until(lambda: board.current)
        server.paths[ACTION_PATH] = answer
        await until(lambda: board.errors["aws/action"] > 2)
        assert board.gone_at_ms == ACTION_MS
        server.paths[ACTION_PATH] = (404, "")
        await until(lambda: not board.current)

    played("aws", script)


def test_a_server_that_goes_away_is_asked_again() -> None:
    async def script(server: Server, board: Board) -> None:
        server.away = True
        await until(lambda: board.errors["aws/action"] > 2)
        server.away = False
        with_token(server)
        server.paths[ACTION_PATH] = ACTION
        await until(lambda: board.current)

    played("aws", script)
