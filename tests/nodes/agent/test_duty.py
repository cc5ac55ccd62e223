from __future__ import annotations

import pytest

from nodes.agent.duty import REMEMBERED_JOBS, Duty, Refusal, Refused
from nodes.protocol import NOTHING_KNOWN, SyncAnswer
from scheduler.core.types import Action, Assignment
from tests.nodes.speech import assignment

LEASE_MS = 30_000


def _answer(*told: Assignment, revision: int = 1, renewed_ms: int | None = 0, named: str = "h") -> SyncAnswer:
    fence = max((one.fence for one in told), default=0)
    return SyncAnswer(named, revision, fence, renewed_ms, LEASE_MS, 10.0, 0, told)


def _unchanged(revision: int = 1, renewed_ms: int | None = 0) -> SyncAnswer:
    return SyncAnswer("h", revision, 0, renewed_ms, LEASE_MS, 10.0, 0)


def _told(*answers: SyncAnswer) -> Duty:
    duty = Duty()
    for answer in answers:
        assert duty.take(answer, 0) == []
    return duty


def test_an_answer_is_obeyed_whole() -> None:
    duty = _told(_answer(assignment("a"), assignment("b"), revision=5, named="x"))
    assert [held.job for held in duty.assignments] == ["a", "b"]
    assert (duty.known, duty.revision, duty.fence) == ("x", 5, 7)


def test_nothing_new_leaves_what_is_held() -> None:
    duty = _told(_answer(assignment()))
    before = duty.assignments
    assert duty.take(_unchanged(revision=9), 0) == []
    assert duty.assignments is before and duty.revision == 9


def test_an_order_that_did_not_change_stays_the_same_object() -> None:
    duty = _told(_answer(assignment("a")))
    (before,) = duty.assignments
    duty.take(_answer(assignment("a"), assignment("b"), revision=2), 0)
    assert duty.assignments[0] is before


def test_orders_of_an_older_picture_change_nothing() -> None:
    duty = _told(_answer(assignment("a"), revision=5))
    assert duty.take(_answer(revision=4), 0) == [Refused(Refusal.OLDER_PICTURE)]
    assert [held.job for held in duty.assignments] == ["a"]


@pytest.mark.parametrize(
    ("held", "then", "refused"),
    [
        pytest.param([assignment(attempt=2)], assignment(attempt=1), Refusal.OLDER_ATTEMPT, id="an older attempt"),
        pytest.param([assignment("a", fence=9)], assignment("b", fence=8), Refusal.LOWER_FENCE, id="a deposed leader"),
        pytest.param([], assignment(action=Action.RUN), Refusal.NEVER_PREPARED, id="ranks that are not here"),
        pytest.param([], assignment(action=Action.CHECKPOINT), Refusal.NEVER_PREPARED, id="to save what is not here"),
        pytest.param([assignment()], assignment(action=Action.RUN), None, id="the barrier opened"),
        pytest.param([assignment(attempt=1)], assignment(attempt=2), None, id="the next attempt"),
        pytest.param([assignment("a", fence=9)], assignment("b", fence=9), None, id="the same leader"),
        pytest.param([assignment("a", fence=9)], assignment("b", fence=10), None, id="the next leader"),
    ],
)
def test_which_new_orders_are_obeyed(held: list[Assignment], then: Assignment, refused: Refusal | None) -> None:
    duty = _told(_answer(*held))
    found = duty.take(_answer(then, revision=2, named="y"), 0)
    assert found == ([Refused(refused, then.job)] if refused else [])
    assert duty.assignments == (() if refused else (then,))
    assert duty.known == "y", "else the same answer would come again at once"


def test_an_older_attempt_is_refused_after_the_later_one_has_left() -> None:
    duty = _told(_answer(assignment(attempt=2)), _answer(revision=2))
    assert duty.take(_answer(assignment(attempt=1), revision=3), 0) == [Refused(Refusal.OLDER_ATTEMPT, "job-1")]


def test_an_attempt_bound_by_an_earlier_leader_goes_on_beside_those_of_the_next() -> None:
    old, new = assignment("a", fence=3), assignment("b", fence=8)
    duty = _told(_answer(old), _answer(old, new, revision=2))
    stopping = assignment("a", fence=3, action=Action.STOP)
    assert duty.take(_answer(stopping, new, revision=3), 0) == []
    assert duty.assignments == (stopping, new)


@pytest.mark.parametrize(
    ("answers", "until_ms"),
    [
        pytest.param([(1_000, _unchanged(renewed_ms=400))], 31_400, id="renewed while the request waited"),
        pytest.param([(1_000, _unchanged(renewed_ms=-900))], 30_100, id="renewed before it came"),
        pytest.param([(1_000, _unchanged()), (9_000, _unchanged(renewed_ms=None))], 31_000, id="not renewed since"),
        pytest.param([(1_000, _unchanged()), (2_000, _unchanged(renewed_ms=-5_000))], 31_000, id="never moves back"),
    ],
)
def test_how_long_the_node_certainly_counts_as_alive(answers: list[tuple[int, SyncAnswer]], until_ms: int) -> None:
    duty = Duty()
    for sent_ms, answer in answers:
        duty.take(answer, sent_ms)
    assert duty.held_until_ms == until_ms
    assert not duty.out_of_touch(until_ms - 1)
    assert duty.out_of_touch(until_ms)


def test_what_was_given_up_out_of_touch_is_never_taken_up_again() -> None:
    duty = _told(_answer(assignment("a"), assignment("b")))
    duty.abandon()
    assert not duty.assignments and duty.known == NOTHING_KNOWN and not duty.out_of_touch(10**9)
    found = duty.take(_answer(assignment("a"), assignment("b", attempt=2), revision=2), 0)
    assert found == [Refused(Refusal.ABANDONED, "a")]
    assert duty.assignments == (assignment("b", attempt=2),)


def test_the_memory_of_jobs_that_left_is_bounded() -> None:
    duty = Duty()
    for number in range(REMEMBERED_JOBS + 10):
        duty.take(_answer(assignment(f"job-{number}"), revision=number + 1), 0)
    assert len(duty._attempts) == REMEMBERED_JOBS + 1
