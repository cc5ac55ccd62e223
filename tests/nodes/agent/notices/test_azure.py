"""Azure: scheduled events, and the acknowledgement that must never come too early."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from nodes.agent.notices.board import Board
from tests.nodes.agent.notices.server import NOW_MS, Server, kinds, only, played, until

PATH = "/metadata/scheduledevents"
SOON, SOON_MS = "Fri, 15 Jan 2027 08:26:58 GMT", 1_800_001_618_000


def event(**fields: Any) -> dict[str, Any]:
    plain = {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "NotBefore": SOON,
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {**plain, **fields}


def document(*events: dict[str, Any]) -> tuple[int, str]:
    return 200, json.dumps({"DocumentIncarnation": 2, "Events": list(events)})


@pytest.mark.parametrize(
    ("fields", "kind", "gone_at_ms"),
    [
        pytest.param({}, "terminate", SOON_MS, id="preempt"),
        pytest.param({"EventType": "Terminate"}, "terminate", SOON_MS, id="terminate"),
        pytest.param({"EventStatus": "Started", "NotBefore": ""}, "terminate", NOW_MS, id="a preempt that has begun"),
        pytest.param({"EventType": "Reboot"}, "maintenance", SOON_MS, id="reboot"),
        pytest.param({"EventType": "Redeploy"}, "maintenance", SOON_MS, id="redeploy"),
        pytest.param({"EventType": "Freeze"}, "freeze", SOON_MS, id="freeze"),
    ],
)
def test_each_event_is_what_it_means(fields: dict[str, Any], kind: str, gone_at_ms: int) -> None:
    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event(**fields))
        await until(lambda: board.current)
        assert (only(board).kind.value, only(board).gone_at_ms) == (kind, gone_at_ms)
        method, _, headers, _ = server.asked[0]
        assert (method, headers["Metadata"]) == ("GET", "true")
        server.paths[PATH] = document()
        await until(lambda: not board.current)

    played("azure", script)


def test_events_of_other_machines_are_not_ours() -> None:
    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event(Resources=["vm_1"]), event(EventId="b", EventType="Reboot"))
        await until(lambda: board.current)
        assert kinds(board) == ["maintenance"]

    played("azure", script, resource="vm_0")


class Host:
    """Whether the host has been vacated, as its agent would say."""

    def __init__(self) -> None:
        self.empty = False

    def __call__(self, notice: str) -> bool:
        return self.empty and notice == f"azure-{event()['EventId']}"


def test_it_is_acknowledged_once_and_only_when_the_host_is_empty() -> None:
    host = Host()

    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event())
        await until(lambda: board.current)
        looks = server.count(PATH)
        await until(lambda: server.count(PATH) > looks + 5)
        assert server.count(PATH, "POST") == 0, "its ranks still save"
        host.empty = True
        await until(lambda: server.count(PATH, "POST"))
        looks = server.count(PATH)
        await until(lambda: server.count(PATH) > looks + 5)
        (body,) = [body for method, _, _, body in server.asked if method == "POST"]
        assert json.loads(body) == {"StartRequests": [{"EventId": event()["EventId"]}]}

    played("azure", script, vacated=host)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"Resources": ["vm_0", "vm_1"]}, id="that names another machine too"),
        pytest.param({"EventType": "Freeze"}, id="after which the host goes on"),
        pytest.param({"EventStatus": "Started", "NotBefore": ""}, id="that has begun"),
    ],
)
def test_an_event_is_not_acknowledged(fields: dict[str, Any]) -> None:
    host = Host()
    host.empty = True

    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event(**fields))
        await until(lambda: server.count(PATH) > 6)
        assert server.count(PATH, "POST") == 0

    played("azure", script, vacated=host)


def test_an_acknowledgement_that_fails_is_tried_again_and_the_notice_stands() -> None:
    host = Host()
    host.empty = True

    async def script(server: Server, board: Board) -> None:
        refusals = iter([500, 500])

        async def answer(request: Any) -> Any:
            if request.method == "POST":
                return web.Response(status=next(refusals, 200))
            return web.Response(text=document(event())[1])

        server.paths[PATH] = answer
        await until(lambda: server.count(PATH, "POST") == 3)
        assert board.errors["azure/events"] == 2
        assert kinds(board) == ["terminate"]

    played("azure", script, vacated=host)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((200, ""), id="empty"),
        pytest.param((200, '{"Events": 3}'), id="no events"),
        pytest.param((200, '{"Events": [{"EventType": "Preempt"}]}'), id="an event without a name"),
        pytest.param(document(event(NotBefore="tomorrow")), id="a time that is none"),
        pytest.param(document(event(Resources="vm_0")), id="of other types"),
        pytest.param((429, ""), id="too many requests"),
    ],
)
def test_what_makes_no_sense_is_counted_and_changes_nothing(answer: tuple[int, str]) -> None:
    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event())
        await until(lambda: board.current)
        server.paths[PATH] = answer
        await until(lambda: board.errors["azure/events"] > 2)
        assert board.gone_at_ms == SOON_MS

    played("azure", script)


def test_kinds_of_events_that_are_not_known_are_left_alone() -> None:
    async def script(server: Server, board: Board) -> None:
        server.paths[PATH] = document(event(EventType="Dance"), event(EventStatus="Completed"))
        await until(lambda: server.count(PATH) > 2)
        assert board.current == ()
        assert not board.errors

    played("azure", script)
