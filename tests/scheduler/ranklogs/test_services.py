"""What becomes of the pieces that an agent hands in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nodes.protocol import LogPiece, LogState, LogTaken
from scheduler.models import Job, RankLog
from scheduler.objects import Address, Objects, ObjectsUnavailable
from scheduler.ranklogs import reading
from scheduler.ranklogs.archive import Archive, Log
from scheduler.ranklogs.pieces import PIECE
from scheduler.ranklogs.services import Desk
from tests.objects import Faults
from tests.scheduler.ranklogs.conftest import NOW, bind

pytestmark = pytest.mark.django_db
LIMIT = 4 * PIECE


@pytest.fixture
def desk(archive: Archive) -> Desk:
    return Desk(archive, LIMIT, lambda: None)


@pytest.fixture
def hand_in(desk: Desk, job: Job) -> Callable[..., LogTaken]:
    def send(start: int, data: bytes, rank: int = 0, node: str = "n1", attempt: int = 1, **fields: Any) -> LogTaken:
        piece = LogPiece(fields.pop("job", job.pk), attempt, rank, start, data, **fields)
        (taken,), _ = desk.take(node, [piece], NOW)
        return taken

    return send


def text(archive: Archive, job: Job, rank: int = 0) -> bytes:
    row = reading.find(job.pk, None, rank)
    assert row is not None
    return b"".join(reading.everything(archive, row))


def test_pieces_become_a_log(hand_in: Any, archive: Archive, job: Job) -> None:
    assert hand_in(0, b"one").kept == 3
    taken = hand_in(0, b"onetwo")
    assert (taken.next, taken.kept, taken.state) == (6, 6, LogState.TAKEN)
    hand_in(6, b"three", over=True)
    assert text(archive, job) == b"onetwothree"
    assert RankLog.objects.get().over


def test_a_question_is_answered_with_where_to_go_on(hand_in: Any) -> None:
    assert hand_in(0, b"").next == 0
    hand_in(0, b"x" * PIECE)
    hand_in(PIECE, b"yy")
    assert (hand_in(0, b"").next, hand_in(0, b"").kept) == (PIECE + 2, PIECE + 2)


@pytest.mark.parametrize(
    ("start", "data"),
    [
        pytest.param(0, b"onetwo", id="the same again"),
        pytest.param(0, b"one", id="an older one, late"),
        pytest.param(3, b"two", id="a part of it"),
        pytest.param(0, b"", id="nothing"),
    ],
)
def test_what_comes_again_changes_nothing(
    hand_in: Any, archive: Archive, job: Job, faults: Faults, start: int, data: bytes
) -> None:
    hand_in(0, b"onetwo")
    before = RankLog.objects.values().get()
    asked = faults.requests
    assert hand_in(start, data).kept == 6
    assert RankLog.objects.values().get() == before
    assert faults.requests == asked, "storage is not bothered"
    assert text(archive, job) == b"onetwo"


def test_a_replaced_piece_leaves_no_object_behind(hand_in: Any, archive: Archive, job: Job) -> None:
    hand_in(0, b"one")
    hand_in(0, b"onetwo")
    with pytest.raises(Exception, match="NoSuchKey"):
        archive.get(Log(job.pk, 1, 0), (0, 3))


def test_bytes_of_any_kind_come_back(hand_in: Any, archive: Archive, job: Job) -> None:
    data = bytes(range(256)) * 300
    hand_in(0, data)
    assert text(archive, job) == data


def test_past_the_limit_the_middle_is_cut_and_marked(hand_in: Any, archive: Archive, job: Job) -> None:
    for at in range(12):
        hand_in(at * PIECE, bytes([65 + at]) * PIECE)
    row = RankLog.objects.get()
    assert row.kept == LIMIT
    assert row.size == 12 * PIECE
    found = text(archive, job)
    assert found.startswith(b"A" * PIECE + b"\n[gangway: %d bytes are not kept]\n" % (8 * PIECE))
    assert found.endswith(b"L" * PIECE)


def test_a_gap_that_the_agent_left_is_marked_too(hand_in: Any, archive: Archive, job: Job) -> None:
    hand_in(0, b"head")
    hand_in(1000, b"tail")
    assert text(archive, job) == b"head\n[gangway: 996 bytes are not kept]\ntail"


@pytest.mark.parametrize(
    ("change", "state", "why"),
    [
        pytest.param({"rank": 2}, LogState.REFUSED, "does not sit on n1", id="a rank of another host"),
        pytest.param({"node": "n3"}, LogState.REFUSED, "does not sit on n3", id="a host without any"),
        pytest.param({"rank": 99}, LogState.REFUSED, "does not sit", id="a rank that there is not"),
        pytest.param({"job": "01J0000000000000000000000X"}, LogState.REFUSED, "no such job", id="no job"),
        pytest.param({"attempt": 2}, LogState.LATER, "not recorded yet", id="an attempt that is ahead of its record"),
    ],
)
def test_who_may_not_write(hand_in: Any, change: dict[str, Any], state: LogState, why: str) -> None:
    taken = hand_in(0, b"text", **change)
    assert taken.state is state
    assert why in taken.why
    assert not RankLog.objects.exists()


def test_an_attempt_that_was_never_bound_is_refused(hand_in: Any, job: Job) -> None:
    job.attempt = 3
    job.save()
    assert hand_in(0, b"x", attempt=2).state is LogState.REFUSED
    bind(job, 3)
    assert hand_in(0, b"x", attempt=3).state is LogState.TAKEN


def test_one_that_is_refused_spoils_none_of_the_others(desk: Desk, job: Job, archive: Archive) -> None:
    pieces = [LogPiece(job.pk, 1, 2, 0, b"no"), LogPiece(job.pk, 1, 0, 0, b"yes"), LogPiece(job.pk, 1, 1, 0, b"also")]
    taken, grown = desk.take("n1", pieces, NOW)
    assert [one.state for one in taken] == [LogState.REFUSED, LogState.TAKEN, LogState.TAKEN]
    assert grown == {Log(job.pk, 1, 0), Log(job.pk, 1, 1)}
    assert text(archive, job, 1) == b"also"


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 507}, {"gone": True}], ids=["500", "full", "hangs up"])
def test_storage_that_fails_enters_nothing(
    hand_in: Any, archive: Archive, job: Job, faults: Faults, fault: dict[str, Any]
) -> None:
    hand_in(0, b"one")
    for name, value in fault.items():
        setattr(faults, name, value)
    with pytest.raises(ObjectsUnavailable):
        hand_in(0, b"onetwo")
    faults.heal()
    assert RankLog.objects.get().size == 3
    assert hand_in(0, b"onetwo").kept == 6
    assert text(archive, job) == b"onetwo"


def test_a_crash_between_object_and_index_is_mended_by_the_next(
    desk: Desk, job: Job, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Desk, "_enter", crash)
        with pytest.raises(KeyboardInterrupt):
            desk.take("n1", [LogPiece(job.pk, 1, 0, 0, b"one")], NOW)
    assert not RankLog.objects.exists()
    desk.take("n1", [LogPiece(job.pk, 1, 0, 0, b"one and more")], NOW)
    assert text(archive, job) == b"one and more"


def test_of_two_that_race_the_longer_stays(
    desk: Desk, job: Job, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shorter was stored before the longer one was entered, and is entered after it."""
    enter = desk._enter

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(desk, "_enter", enter)
        desk.take("n1", [LogPiece(job.pk, 1, 0, 0, b"short and long")], NOW)
        return enter(*args)

    monkeypatch.setattr(desk, "_enter", overtaken)
    desk.take("n1", [LogPiece(job.pk, 1, 0, 0, b"short")], NOW)
    assert text(archive, job) == b"short and long"


# --- reading


@pytest.fixture
def row(hand_in: Any, job: Job) -> RankLog:
    """``aaaa``, a gap of 6 bytes, ``bbb`` and ``€`` in two pieces."""
    hand_in(0, b"aaaa")
    hand_in(10, b"b" * PIECE + b"\xe2\x82")
    hand_in(12 + PIECE, b"\xac")
    return RankLog.objects.get()


@pytest.mark.parametrize(
    ("offset", "most", "start", "length", "skipped"),
    [
        pytest.param(0, 100, 0, 4, 0, id="up to a gap"),
        pytest.param(2, 100, 2, 2, 0, id="from the middle of a piece"),
        pytest.param(0, 3, 0, 3, 0, id="no more than asked for"),
        pytest.param(4, 5, 10, 5, 6, id="over the gap"),
        pytest.param(7, 5, 10, 5, 3, id="from within the gap"),
        pytest.param(10, PIECE + 1, 10, PIECE, 0, id="no half of a character"),
        pytest.param(10, PIECE * 2, 10, PIECE + 3, 0, id="over the border of two pieces"),
        pytest.param(PIECE + 13, 9, PIECE + 13, 0, 0, id="the end"),
        pytest.param(PIECE + 99, 9, PIECE + 99, 0, 0, id="past the end"),
    ],
)
def test_a_stretch(
    row: RankLog, archive: Archive, offset: int, most: int, start: int, length: int, skipped: int
) -> None:
    found = reading.read(archive, row, offset, most)
    assert (found.start, len(found.data), found.skipped) == (start, length, skipped)


def test_a_log_that_ends_within_a_character_is_read_to_its_end(hand_in: Any, archive: Archive) -> None:
    hand_in(0, b"ab\xe2\x82")
    row = RankLog.objects.get()
    assert reading.read(archive, row, 0, 100).data == b"ab", "the rest may still come"
    hand_in(0, b"ab\xe2\x82", over=True)
    row = RankLog.objects.get()
    assert reading.read(archive, row, 0, 100).data == b"ab\xe2\x82"
    assert reading.read(archive, row, 2, 100).data == b"\xe2\x82"


def test_which_logs_there_are(hand_in: Any, job: Job) -> None:
    hand_in(0, b"x", rank=1)
    hand_in(0, b"x", rank=0)
    bind(job, 2)
    hand_in(0, b"x", attempt=2)
    hand_in(0, b"", rank=1, attempt=2)
    assert reading.attempts(job.pk) == [reading.Attempt(2, (0,)), reading.Attempt(1, (0, 1))]


def test_what_the_ranks_of_a_host_wrote_is_stored_at_the_same_time(
    objects: Objects, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2, timeout=30)
    put = objects.put

    def wait_for_the_other(at: Address, data: bytes) -> None:
        together.wait()
        put(at, data)

    monkeypatch.setattr(objects, "put", wait_for_the_other)
    archive = Archive(lambda: objects, "logs-together")
    pieces = [LogPiece(job.pk, 1, rank, 0, b"rank %d" % rank) for rank in (0, 1)]
    taken, _ = Desk(archive, LIMIT, lambda: None).take("n1", pieces, NOW)
    assert [one.kept for one in taken] == [6, 6]
    assert [text(archive, job, rank) for rank in (0, 1)] == [b"rank 0", b"rank 1"]
