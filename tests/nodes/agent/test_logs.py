"""The shipper against a control plane that keeps pieces by the real rules, with files that real writers append to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodes.agent import logs
from nodes.agent.client import Unreachable
from nodes.agent.logs import AT_HAND, BEHIND, PIECE, Shipper
from nodes.agent.output import Output
from nodes.protocol import LogPiece, LogsAnswer, LogsRequest, LogState, LogTaken
from scheduler.ranklogs.pieces import fit, go_on, put

JOB = "01J0000000000000000000000A"
LIMIT = 64 * 1024 * 1024


class Desk:
    """Takes pieces as the control plane does. ``away`` does not answer; ``deaf`` takes them and loses the answer."""

    def __init__(self) -> None:
        self.pieces: dict[int, list[tuple[int, int]]] = {}
        self.bytes: dict[int, dict[tuple[int, int], bytes]] = {}
        self.over: set[int] = set()
        self.away = self.deaf = False
        self.state = LogState.TAKEN
        self.every_s = 15.0
        self.requests: list[LogsRequest] = []

    async def send(self, request: LogsRequest) -> LogsAnswer:
        if self.away:
            raise Unreachable("away")
        self.requests.append(request)
        taken = tuple(self._take(piece) for piece in request.pieces)
        if self.deaf:
            raise Unreachable("the answer is lost")
        return LogsAnswer(taken, self.every_s)

    def _take(self, piece: LogPiece) -> LogTaken:
        held = self.pieces.setdefault(piece.rank, [])
        stored = self.bytes.setdefault(piece.rank, {})
        new = fit(held, piece.start, piece.start + len(piece.data)) if self.state is LogState.TAKEN else None
        if new is not None:
            self.pieces[piece.rank], gone = put(held, new, LIMIT)
            stored[new.start, new.end] = piece.data[new.start - piece.start :]
            for one in gone:
                del stored[one]
        if piece.over:
            self.over.add(piece.rank)
        return LogTaken(JOB, piece.attempt, piece.rank, *go_on(self.pieces[piece.rank]), state=self.state)

    def text(self, rank: int = 0) -> bytes:
        return b"".join(self.bytes.get(rank, {})[piece] for piece in self.pieces.get(rank, []))


class Host:
    """One agent's shipper, its clock and the files of its ranks."""

    def __init__(self, desk: Desk, directory: Path) -> None:
        self.desk, self.directory, self.now_s = desk, directory, 0.0
        self.restart()

    def restart(self) -> None:
        self.shipper = Shipper("n1", self.desk.send, lambda: self.now_s)

    def file(self, rank: int = 0) -> Path:
        return self.directory / f"{rank}.log"

    def follow(self, *ranks: int) -> None:
        for rank in ranks:
            self.shipper.follow(JOB, 1, rank, self.file(rank))

    def write(self, data: bytes, rank: int = 0) -> None:
        with self.file(rank).open("ab") as file:
            file.write(data)

    def pass_time(self, seconds: float = 1.0) -> None:
        self.now_s += seconds
        asyncio.run(self.shipper.step())


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def host(desk: Desk, tmp_path: Path) -> Host:
    return Host(desk, tmp_path)


def test_what_is_there_goes_at_once_and_what_follows_in_its_turn(host: Host, desk: Desk) -> None:
    host.write(b"first\n")
    host.follow(0)
    host.pass_time()
    assert desk.text() == b"first\n"
    host.write(b"second\n")
    host.pass_time(5)
    assert desk.text() == b"first\n"
    host.pass_time(10)
    assert desk.text() == b"first\nsecond\n"


def test_a_rank_that_writes_little_makes_few_objects(host: Host, desk: Desk) -> None:
    host.follow(0)
    for number in range(40):
        host.write(b"line %d\n" % number)
        host.pass_time(15)
    assert desk.text() == b"".join(b"line %d\n" % number for number in range(40))
    assert len(desk.pieces[0]) <= 9


def test_where_somebody_looks_it_goes_each_second(host: Host, desk: Desk) -> None:
    desk.every_s = 1.0
    host.write(b"a")
    host.follow(0)
    host.pass_time()
    host.write(b"b")
    host.pass_time()
    assert desk.text() == b"ab"


def test_a_file_that_comes_later_is_shipped_when_it_does(host: Host, desk: Desk) -> None:
    host.follow(0)
    host.pass_time()
    host.write(b"late")
    host.pass_time(15)
    assert desk.text() == b"late"


def test_much_output_goes_in_whole_pieces(host: Host, desk: Desk) -> None:
    data = bytes(range(256)) * 4096  # 1 MiB of anything
    host.write(data + b"rest")
    host.follow(0)
    host.pass_time()
    assert desk.text() == data + b"rest"
    assert [end - start for start, end in desk.pieces[0]] == [PIECE] * 2 + [4]


def test_after_a_restart_it_goes_on_where_the_control_plane_says(host: Host, desk: Desk) -> None:
    host.write(b"x" * (PIECE + 10))
    host.follow(0)
    host.pass_time()
    host.restart()
    host.write(b"y" * 10)
    host.follow(0)
    host.pass_time()
    assert desk.text() == b"x" * (PIECE + 10) + b"y" * 10
    assert desk.requests[-1].pieces[0].start == PIECE + 10


def test_a_lost_answer_doubles_nothing(host: Host, desk: Desk) -> None:
    host.write(b"one")
    host.follow(0)
    host.pass_time()
    desk.deaf = True
    host.write(b"two")
    host.pass_time(15)
    desk.deaf = False
    host.write(b"three")
    host.pass_time(60)
    assert desk.text() == b"onetwothree"


def test_a_control_plane_that_is_away_is_asked_less_and_less_often(host: Host, desk: Desk) -> None:
    host.write(b"one")
    host.follow(0)
    desk.away = True
    tries = 0
    for _ in range(300):
        before = host.shipper._due_s
        host.pass_time()
        tries += host.shipper._due_s != before
    assert 8 <= tries <= 12
    desk.away = False
    host.pass_time(60)
    assert desk.text() == b"one"


def test_the_end_is_told_with_the_last_byte_and_not_before(host: Host, desk: Desk) -> None:
    host.write(b"x" * PIECE * 3)
    host.follow(0)
    host.shipper.ended(JOB, 1, 0)
    assert not host.shipper.drained(JOB, 1)
    host.pass_time()
    assert host.shipper.drained(JOB, 1)
    assert desk.over == {0}
    assert [piece.over for request in desk.requests for piece in request.pieces] == [False, False, False, True]


def test_a_rank_that_wrote_nothing_ends_too(host: Host, desk: Desk) -> None:
    host.follow(0)
    host.shipper.ended(JOB, 1, 0)
    host.pass_time()
    assert host.shipper.drained(JOB, 1)
    assert desk.over == {0}


def test_an_attempt_that_is_not_followed_has_nothing_left(host: Host) -> None:
    assert host.shipper.drained(JOB, 9)


def test_of_a_rank_that_is_refused_nothing_more_is_sent(host: Host, desk: Desk) -> None:
    desk.state = LogState.REFUSED
    host.write(b"one")
    host.follow(0)
    host.pass_time()
    host.write(b"two")
    host.pass_time(60)
    assert len(desk.requests) == 1
    assert host.shipper.drained(JOB, 1)


def test_what_is_not_wanted_yet_is_sent_again(host: Host, desk: Desk) -> None:
    desk.state = LogState.LATER
    host.write(b"one")
    host.follow(0)
    host.pass_time()
    desk.state = LogState.TAKEN
    host.pass_time(15)
    assert desk.text() == b"one"


def test_a_loud_rank_leaves_room_for_the_others(host: Host, desk: Desk) -> None:
    host.follow(*range(10))
    host.pass_time()
    host.write(b"x" * PIECE * 100)
    for rank in range(1, 10):
        host.write(b"y" * (PIECE + 1), rank)
    host.pass_time(15)
    assert all(desk.text(rank) == b"y" * (PIECE + 1) for rank in range(1, 10))


def test_a_rank_far_ahead_loses_the_middle_and_never_the_end(host: Host, desk: Desk) -> None:
    host.write(b"head")
    host.follow(0)
    host.pass_time()
    for _ in range(3):
        host.write(b"x" * (BEHIND // 2))
    host.write(b"tail")
    for _ in range(5):
        host.pass_time(15)
    assert desk.text().startswith(b"head")
    assert desk.text().endswith(b"tail")
    (_, end), (start, _) = desk.pieces[0][0], desk.pieces[0][1]
    assert start > end, "there is a gap, and it is known"


def test_disk_is_given_back_behind_what_is_shipped(host: Host, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "REQUESTS", 100)
    size = 4 * AT_HAND
    host.write(b"x" * size)
    host.follow(0)
    host.pass_time()
    host.write(b"more")
    host.pass_time(15)
    assert desk.text() == b"x" * size + b"more"
    host.pass_time()
    status = host.file().stat()
    assert status.st_size == size + 4, "offsets stay"
    assert status.st_blocks * 512 < 2 * AT_HAND


def test_what_was_given_back_is_not_sent_as_if_it_were_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000)
    output = Output(path)
    output.give_back(65_536)
    start, data = output.read(0, 10)
    assert (start, data) == (65_536, b"x" * 10)
    assert output.read(100_000, 10) == (100_000, b"")


def test_what_is_forgotten_is_shipped_no_more(host: Host, desk: Desk) -> None:
    host.write(b"one")
    host.follow(0)
    host.shipper.forget(JOB, 1)
    host.pass_time()
    assert desk.requests == []
