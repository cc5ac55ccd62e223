"""The rule of the ledger, and that nothing is charged twice or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.ledger.book import DAY_MS, Account, Book, Guarantees, Source, days, standing

TREE = Guarantees({"vision": {"H100": 8}}, {"vision": ("org", "vision"), "speech": ("org", "speech")})
Steps = Callable[["Play"], None]


class Play:
    """Writes a book event by event; ``work`` is bind and start at once."""

    def __init__(self) -> None:
        self.book = Book(TREE)
        self.number = 0

    def by(self) -> Source:
        self.number += 1
        return Source(str(self.number), 0)

    def bind(self, job: str, at: int, gpus: int = 4, attempt: int = 1, team: str = "vision", **more: Any) -> None:
        account = Account(job, team, "ada@example.com", more.get("saves", True))
        self.book.bind(self.by(), at, account, attempt, more.get("gpu_type", "H100"), gpus)

    def start(self, job: str, at: int, attempt: int = 1) -> None:
        self.book.start(self.by(), at, job, attempt)

    def work(self, job: str, at: int, gpus: int = 4, attempt: int = 1, **more: Any) -> None:
        self.bind(job, at, gpus, attempt, **more)
        self.start(job, at, attempt)

    def stop(self, job: str, at: int, attempt: int = 1) -> None:
        self.book.stop(self.by(), at, job, attempt)

    def release(self, job: str, at: int, lost: int = 0, attempt: int = 1) -> None:
        self.book.release(self.by(), at, job, attempt, lost)

    def sums(self) -> dict[str, tuple[int, int, int]]:
        """Floor, burst and lost by job."""
        found: dict[str, tuple[int, int, int]] = {}
        for line in self.book.charges:
            floor, burst, lost = found.get(line.account.job, (0, 0, 0))
            ms = line.ends_ms - line.starts_ms
            found[line.account.job] = (floor + line.floor * ms, burst + line.burst * ms, lost + line.lost * ms)
        return found


def within(play: Play) -> None:
    play.work("a", 0)
    play.release("a", 100)


def beyond(play: Play) -> None:
    play.work("a", 0)
    play.work("b", 0)
    play.work("c", 0)
    for job in "abc":
        play.release(job, 100)


def partly(play: Play) -> None:
    play.work("a", 0, gpus=12)
    play.release("a", 10)


def moves_up(play: Play) -> None:
    play.work("a", 0, gpus=8)
    play.work("b", 0)
    play.release("a", 40)
    play.release("b", 100)


def another_type(play: Play) -> None:
    play.work("a", 0, gpu_type="A100")
    play.release("a", 10)


def barrier(play: Play) -> None:
    play.bind("a", 0)
    play.start("a", 30)
    play.release("a", 100)


def never_started(play: Play) -> None:
    play.bind("a", 0)
    play.stop("a", 50)
    play.release("a", 50)


def stopping(play: Play) -> None:
    play.work("a", 0)
    play.stop("a", 70)
    play.stop("a", 80)
    play.release("a", 100, lost=20)


def works_on(play: Play) -> None:
    play.work("a", 0, saves=False)
    play.stop("a", 70)
    play.release("a", 100, lost=100)


def earlier_attempts(play: Play) -> None:
    play.work("a", 0)
    play.release("a", 50)
    play.work("a", 200, attempt=2)
    play.release("a", 230, lost=60, attempt=2)
    play.work("a", 300, attempt=3)
    play.release("a", 310, lost=15, attempt=3)


def old_reports(play: Play) -> None:
    play.work("a", 0, attempt=2)
    play.release("a", 10, attempt=1)
    play.start("a", 20, attempt=1)
    play.release("a", 100, attempt=2)


def replanted(play: Play) -> None:
    play.work("a", 0, gpus=8)
    play.book.replant(Source("quota/2", 0), 60, Guarantees({"vision": {"H100": 2}}, TREE.paths))
    play.release("a", 100)


@pytest.mark.parametrize(
    ("steps", "sums"),
    [
        pytest.param(within, {"a": (400, 0, 0)}, id="within its floor all is floor"),
        pytest.param(
            beyond, {"a": (400, 0, 0), "b": (400, 0, 0), "c": (0, 400, 0)}, id="what came last is above the floor"
        ),
        pytest.param(partly, {"a": (80, 40, 0)}, id="a gang may be in the floor in part"),
        pytest.param(
            moves_up, {"a": (320, 0, 0), "b": (240, 160, 0)}, id="who is above the floor moves up when others go"
        ),
        pytest.param(another_type, {"a": (0, 40, 0)}, id="a floor is of one GPU type"),
        pytest.param(barrier, {"a": (280, 0, 120)}, id="the barrier is lost"),
        pytest.param(never_started, {"a": (0, 0, 200)}, id="a gang that never started has lost it all"),
        pytest.param(stopping, {"a": (200, 0, 200)}, id="from the stop on, and what no checkpoint holds, is lost"),
        pytest.param(works_on, {"a": (0, 0, 400)}, id="work that goes on through a stop is lost once"),
        pytest.param(earlier_attempts, {"a": (60, 0, 300)}, id="a loss reaches back into earlier attempts"),
        pytest.param(old_reports, {"a": (400, 0, 0)}, id="what is told of another attempt changes nothing"),
        pytest.param(replanted, {"a": (560, 240, 0)}, id="a lower floor counts from its edit on"),
    ],
)
def test_the_split(steps: Steps, sums: dict[str, tuple[int, int, int]]) -> None:
    play = Play()
    steps(play)
    assert play.sums() == sums
    assert not play.book.held


def test_a_job_is_counted_in_its_first_line() -> None:
    play = Play()
    earlier_attempts(play)
    assert [line.jobs for line in play.book.charges if line.jobs] == [1]


def test_the_path_is_as_it_was_then() -> None:
    play = Play()
    play.work("a", 0)
    play.book.replant(Source("quota/2", 0), 60, Guarantees(TREE.floors, {"vision": ("labs", "vision")}))
    play.release("a", 100)
    assert [(line.path, line.starts_ms, line.ends_ms) for line in play.book.charges] == [
        (("org", "vision"), 0, 60),
        (("labs", "vision"), 60, 100),
    ]


def test_a_clock_that_goes_back_charges_no_time_twice() -> None:
    play = Play()
    play.bind("a", 100)
    play.start("a", 90)
    play.release("a", 120)
    assert play.sums() == {"a": (80, 0, 0)}


@given(st.integers(0, 5 * DAY_MS), st.integers(0, 5 * DAY_MS))
def test_a_span_is_cut_at_each_midnight(starts: int, length: int) -> None:
    pieces = list(days(starts, starts + length))
    assert sum(ends - begins for begins, ends in pieces) == length
    assert all(begins // DAY_MS == (ends - 1) // DAY_MS and begins < ends for begins, ends in pieces)


@given(st.data())
def test_whatever_happens_every_gpu_is_charged_once(data: st.DataObject) -> None:
    play, now, attempts, held, spans = Play(), 0, dict.fromkeys("abcde", 0), {}, 0
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.integers(0, DAY_MS))
        job = data.draw(st.sampled_from("abcde"))
        act = data.draw(st.sampled_from(["start", "stop", "release"]))
        if job not in held:
            attempts[job] += 1
            held[job] = now, data.draw(st.integers(1, 12))
            play.bind(job, now, held[job][1], attempts[job], team="vision" if job < "d" else "speech")
        elif act == "release":
            since, gpus = held.pop(job)
            spans += gpus * (now - since)
            play.release(job, now, data.draw(st.integers(0, 2 * DAY_MS)), attempts[job])
        else:
            getattr(play, act)(job, now, attempts[job])
        _check_floors(play.book)
    for job in list(held):
        since, gpus = held.pop(job)
        spans += gpus * (now - since)
        play.release(job, now, 0, attempts[job])
    assert sum(sum(parts) for parts in play.sums().values()) == spans
    assert all(part >= 0 for parts in play.sums().values() for part in parts)
    for job in "abcde":
        work = standing([line for line in play.book.charges if line.account.job == job])
        useful = sum((line.floor + line.burst) * (line.ends_ms - line.starts_ms) for line in work)
        assert useful == sum(play.sums().get(job, (0, 0, 0))[:2])


def _check_floors(book: Book) -> None:
    vision = [one for one in book.held.values() if one.account.team == "vision"]
    assert sum(one.floor for one in vision) == min(8, sum(one.gpus for one in vision))
    assert all(one.floor == 0 for one in book.held.values() if one.account.team == "speech")
