"""What outlives an agent: the orders in force, the attempts that it gave up, and until when it may go on."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nodes.agent import keeper
from nodes.agent.duty import Duty, Refusal, Refused
from nodes.agent.memory import DUTY_FILE, LEASE_FILE, Memory
from nodes.protocol import SyncAnswer
from scheduler.core.types import Action, Assignment
from tests.nodes.speech import assignment

LEASE_MS = 30_000


def _answer(*told: Assignment, revision: int = 1, named: str = "h") -> SyncAnswer:
    return SyncAnswer(named, revision, 7, 0, LEASE_MS, 10.0, 0, told)


def _kept(path: Path, *answers: SyncAnswer, sent_ms: int = 1_000) -> Duty:
    duty, memory = Duty(), Memory(path)
    for answer in answers:
        assert duty.take(answer, sent_ms) == []
        memory.keep(duty)
    return duty


def test_the_next_life_is_bound_as_the_last_one_was(tmp_path: Path) -> None:
    before = _kept(tmp_path, _answer(assignment("a"), assignment("b", attempt=3), revision=5, named="x"))
    after = Memory(tmp_path).recall()
    assert after.kept() == before.kept()
    assert (after.known, after.revision, after.fence, after.held_until_ms) == ("x", 5, 7, 31_000)


def test_it_goes_on_with_attempts_that_were_prepared_and_refuses_older_ones(tmp_path: Path) -> None:
    _kept(tmp_path, _answer(assignment("a", attempt=2)))
    after = Memory(tmp_path).recall()
    running = assignment("a", attempt=2, action=Action.RUN)
    assert after.take(_answer(running, revision=2), 2_000) == []
    assert after.take(_answer(assignment("a", attempt=1), revision=3), 2_000) == [Refused(Refusal.OLDER_ATTEMPT, "a")]


def test_a_picture_older_than_its_orders_changes_nothing(tmp_path: Path) -> None:
    _kept(tmp_path, _answer(assignment("a"), revision=9))
    after = Memory(tmp_path).recall()
    assert after.take(_answer(revision=8), 2_000) == [Refused(Refusal.OLDER_PICTURE)]
    assert after.assignments


def test_what_was_given_up_stays_given_up(tmp_path: Path) -> None:
    duty, memory = Duty(), Memory(tmp_path)
    duty.take(_answer(assignment("a")), 1_000)
    memory.keep(duty)
    duty.abandon()
    memory.keep(duty)
    after = Memory(tmp_path).recall()
    assert after.assignments == ()
    assert after.take(_answer(assignment("a"), revision=2), 2_000) == [Refused(Refusal.ABANDONED, "a")]


def test_an_agent_that_was_away_for_longer_than_its_lease_knows_it_at_once(tmp_path: Path) -> None:
    _kept(tmp_path, _answer(assignment("a")), sent_ms=keeper.clock_ms() - LEASE_MS - 1)
    assert Memory(tmp_path).recall().out_of_touch(keeper.clock_ms())


def test_the_clock_of_another_run_of_the_kernel_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept(tmp_path, _answer(assignment("a")))
    monkeypatch.setattr(keeper, "kernel_boot", lambda: "another")
    after = Memory(tmp_path).recall()
    assert after.held_until_ms is None and after.assignments


def test_giving_up_leaves_the_lease_that_ends_the_ranks(tmp_path: Path) -> None:
    duty, memory = Duty(), Memory(tmp_path)
    duty.take(_answer(assignment("a")), 1_000)
    memory.keep(duty)
    before = (tmp_path / LEASE_FILE).read_bytes()
    duty.abandon()
    memory.keep(duty)
    assert (tmp_path / LEASE_FILE).read_bytes() == before


def test_an_idle_agent_writes_nothing(tmp_path: Path) -> None:
    _kept(tmp_path, _answer())
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    duty, memory = Duty(), Memory(tmp_path)
    for revision in range(2, 20):
        duty.take(_answer(revision=revision), 1_000 * revision)
    memory.keep(memory.recall())
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_the_files_are_the_owners_alone(tmp_path: Path) -> None:
    _kept(tmp_path, _answer(assignment("a")))
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (DUTY_FILE, LEASE_FILE)} == {0o600}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"assignments": 3}'])
def test_files_that_cannot_be_read_count_as_nothing(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / DUTY_FILE).write_bytes(raw)
    (tmp_path / LEASE_FILE).write_bytes(raw)
    assert Memory(tmp_path).recall().assignments == ()
