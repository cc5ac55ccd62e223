"""What becomes of the directories of attempts that are over."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.agent.executor import HostExecutor
from nodes.agent.logs import Shipper
from nodes.agent.outputs import Outputs
from nodes.agent.retired import KEPT_MS, MARK, Retired
from nodes.protocol import LogsAnswer, LogsRequest, LogState, LogTaken
from tests.nodes.agent.host import Host, now_ms, order, python


class Store:
    """Takes logs in the control plane's place; ``refuses`` says that it wants none."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int, int], bytes] = {}
        self.refuses = False

    async def take(self, request: LogsRequest) -> LogsAnswer:
        taken = []
        for piece in request.pieces:
            key = (piece.job, piece.attempt, piece.rank)
            held = self.held[key] = self.held.get(key, b"")[: piece.start] + piece.data
            state = LogState.REFUSED if self.refuses else LogState.TAKEN
            taken.append(LogTaken(*key, next=len(held), kept=len(held), state=state))
        return LogsAnswer(tuple(taken), 1.0)


def _outputs(host: Host, store: Store) -> tuple[Outputs, Shipper]:
    shipper = Shipper("h1", store.take, lambda: now_ms() / 1000)
    executor = host.executor
    assert isinstance(executor, HostExecutor)
    return Outputs(executor, host.retired, shipper), shipper


async def _ship(outputs: Outputs, shipper: Shipper) -> None:
    for _ in range(4):
        outputs.tend()
        shipper._due_s = 0.0
        await shipper.step()
    outputs.tend()


@pytest.mark.anyio
async def test_an_attempt_goes_once_its_logs_are_shipped(host: Host) -> None:
    store = Store()
    host.run_to_end(order(python("print('hello')"), ranks=2))
    outputs, shipper = _outputs(host, store)
    await _ship(outputs, shipper)
    assert (host.runs / "job-1@1").exists(), "it is still wanted here"
    host.tell()
    await _ship(outputs, shipper)
    host.retired.close()
    assert store.held == {("job-1", 1, 0): b"hello\n", ("job-1", 1, 1): b"hello\n"}
    assert not (host.runs / "job-1@1").exists()


@pytest.mark.anyio
async def test_what_an_earlier_life_could_not_ship_is_shipped_by_the_next(host: Host) -> None:
    host.run_to_end(order(python("print('hello')")))
    host.tell()
    host.retired.close()
    host.restart()
    store = Store()
    await _ship(*_outputs(host, store))
    host.retired.close()
    assert store.held == {("job-1", 1, 0): b"hello\n"}
    assert not (host.runs / "job-1@1").exists()


@pytest.mark.anyio
async def test_logs_that_nobody_wants_keep_nothing(host: Host) -> None:
    host.run_to_end(order(python("print('hello')")))
    host.tell()
    store = Store()
    store.refuses = True
    await _ship(*_outputs(host, store))
    host.retired.close()
    assert not (host.runs / "job-1@1").exists()


@pytest.mark.parametrize(("age_ms", "is_kept"), [(KEPT_MS - 1, True), (KEPT_MS + 1, False)])
def test_what_cannot_be_shipped_is_kept_for_a_day(tmp_path: Path, age_ms: int, is_kept: bool) -> None:
    path = tmp_path / "job-1@1"
    path.mkdir()
    retired, now = Retired(tmp_path), now_ms()
    retired.take(path, tmp_path / "scratch", now - age_ms)
    retired.sweep(now)
    retired.close()
    assert path.exists() is is_kept


def test_an_attempt_that_is_over_is_not_taken_up_again(host: Host) -> None:
    host.run_to_end(order())
    host.tell()
    assert (host.runs / "job-1@1" / MARK).exists()
    host.restart()
    assert host.executor.gangs == ()
