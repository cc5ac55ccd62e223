"""The application that takes logs: who is heard, what is refused, and that storage that hangs holds up nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from nodes.protocol import LogPiece, LogsAnswer, LogsRequest, LogTaken, decode, encode
from nodes.selectors import Identity
from nodes.sync import Outcome, Refused
from portal.api import agent_logs
from portal.api.agent_logs import LOGS, MAX_BODY, MAX_PIECE, MAX_PIECES, MOST_WAITING, THREADS, LogsApp
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs.archive import Log
from tests.nodes.speech import refused
from tests.portal.test_agent_api import asgi

JOB = "01J0000000000000000000000A"
PIECE = LogPiece(JOB, 1, 0, 0, b"text")


class Desk:
    """Takes everything; may be told that storage is away, or to hang until ``go`` is set."""

    def __init__(self) -> None:
        self.away = False
        self.go = threading.Event()
        self.go.set()
        self.calls = 0

    def take(self, node: str, pieces: Sequence[LogPiece], now: datetime) -> tuple[list[LogTaken], set[Log]]:
        self.calls += 1
        assert self.go.wait(20)
        if self.away:
            raise ObjectsUnavailable("told to be away")
        taken = [LogTaken(one.job, one.attempt, one.rank, one.start, one.start + len(one.data)) for one in pieces]
        return taken, {Log(one.job, one.attempt, one.rank) for one in pieces}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The jobs that somebody looks at."""
    known: set[str] = set()
    monkeypatch.setattr(agent_logs, "watched", lambda jobs: known & set(jobs))
    return known


async def identify(scope: dict[str, Any]) -> Identity:
    if (b"authorization", b"Bearer good") not in scope["headers"]:
        raise Refused(Outcome.BAD_TOKEN, "no node has this token")
    return Identity("n1", 8)


def app_of(desk: Any) -> LogsApp:
    return LogsApp(identify, desk, lambda: datetime(2026, 4, 19, tzinfo=UTC))


def post(desk: Desk, body: bytes, token: str = "good", method: str = "POST") -> tuple[int, dict[str, str], bytes]:
    app = app_of(desk)
    try:
        return asyncio.run(asgi(app, method, body, {"authorization": f"Bearer {token}"}))  # type: ignore[arg-type]
    finally:
        app.stop()


@pytest.mark.usefixtures("looked_at")
def test_pieces_are_taken_and_come_seldom_while_nobody_looks(desk: Desk) -> None:
    status, _, raw = post(desk, encode(LogsRequest("n1", (PIECE,))))
    assert status == 200
    answer = decode(LogsAnswer, raw)
    assert answer == LogsAnswer((LogTaken(JOB, 1, 0, 0, 4),), 15.0)


def test_where_somebody_looks_they_come_at_once_and_the_page_is_told(
    desk: Desk, looked_at: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    class Layer:
        async def group_send(self, group: str, message: dict[str, Any]) -> None:
            told.append((group, message))

    monkeypatch.setattr(agent_logs, "get_channel_layer", Layer)
    looked_at.add(JOB)
    other = LogPiece("01J0000000000000000000000B", 1, 0, 0, b"unseen")
    _, _, raw = post(desk, encode(LogsRequest("n1", (PIECE, other))))
    assert decode(LogsAnswer, raw).every_s == 1.0
    assert told == [(f"job.{JOB}", {"type": "job.logged", "attempt": 1, "rank": 0})]


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize(
    ("body", "token", "status", "detail"),
    [
        pytest.param(encode(LogsRequest("n1", (PIECE,))), "bad", 401, "token", id="a token of nobody"),
        pytest.param(encode(LogsRequest("n2", (PIECE,))), "good", 403, "n2", id="another node's logs"),
        pytest.param(b"", "good", 400, "JSON", id="nothing"),
        pytest.param(b"[" * 5000, "good", 400, "", id="a deep document"),
        pytest.param(b'{"node": "n1", "pieces": 3}', "good", 400, "pieces", id="another type"),
        pytest.param(
            b'{"node": "n1", "pieces": [{"job": "J", "attempt": 1, "rank": 0, "start": 0, "data": "%"}]}',
            "good",
            400,
            "data",
            id="no base64",
        ),
        pytest.param(
            encode(LogsRequest("n1", (LogPiece("../x", 1, 0, 0, b""),))), "good", 400, "pieces[0].job", id="a path"
        ),
        pytest.param(encode(LogsRequest("n1", (LogPiece(JOB, 0, 0, 0),))), "good", 400, "attempt", id="attempt 0"),
        pytest.param(encode(LogsRequest("n1", (LogPiece(JOB, 1, -1, 0),))), "good", 400, "rank", id="rank -1"),
        pytest.param(encode(LogsRequest("n1", (LogPiece(JOB, 1, 0, 1 << 60),))), "good", 400, "start", id="far away"),
        pytest.param(
            encode(LogsRequest("n1", (LogPiece(JOB, 1, 0, 0, b"x" * (MAX_PIECE + 1)),))),
            "good",
            400,
            "data",
            id="too large a piece",
        ),
        pytest.param(
            encode(LogsRequest("n1", (PIECE,) * (MAX_PIECES + 1))), "good", 400, "pieces", id="too many pieces"
        ),
        pytest.param(b" " * (MAX_BODY + 1), "good", 413, "bytes", id="too large a body"),
    ],
)
def test_what_is_refused(desk: Desk, body: bytes, token: str, status: int, detail: str) -> None:
    counted = refused(LOGS)
    found, headers, raw = post(desk, body, token)
    assert found == status and refused(LOGS) == counted + 1
    assert headers["content-type"] == "application/problem+json"
    assert detail in json.loads(raw)["detail"]
    assert desk.calls == 0


def test_it_takes_posts_alone(desk: Desk) -> None:
    status, headers, _ = post(desk, b"", method="GET")
    assert (status, headers["allow"]) == (405, "POST")


@pytest.mark.usefixtures("looked_at")
def test_while_storage_is_away_the_agent_is_sent_away(desk: Desk) -> None:
    desk.away = True
    status, headers, _ = post(desk, encode(LogsRequest("n1", (PIECE,))))
    assert (status, headers["retry-after"]) == (503, "1")


@pytest.mark.usefixtures("looked_at")
def test_storage_that_hangs_keeps_a_bounded_number_waiting(desk: Desk) -> None:
    async def scene() -> None:
        app = app_of(desk)
        desk.go.clear()
        body = encode(LogsRequest("n1", (PIECE,)))
        headers = {"authorization": "Bearer good"}
        most = THREADS + MOST_WAITING
        waiting = [asyncio.create_task(asgi(app, "POST", body, headers)) for _ in range(most)]  # type: ignore[arg-type]
        while app._inside < most:
            await asyncio.sleep(0)
        status, _, _ = await asgi(app, "POST", body, headers)  # type: ignore[arg-type]
        assert status == 503
        desk.go.set()
        assert {status for status, _, _ in await asyncio.gather(*waiting)} == {200}
        status, _, _ = await asgi(app, "POST", body, headers)  # type: ignore[arg-type]
        assert status == 200
        app.stop()

    asyncio.run(scene())
