"""What the boards show: the map's deltas, the queue's rows, and what of them whom may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portal.live.cluster import ClusterBoard, compact, with_jobs
from portal.live.job import JobBoard
from portal.live.queue import QueueBoard, key_of, redacted, steady
from scheduler import clock
from scheduler.core.types import (
    GangReport,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeIntent,
    NodeReport,
    Phase,
    Policy,
    RankReport,
    RankState,
    Slice,
)
from scheduler.expected import Expected
from scheduler.picture import Picture, Touched
from scheduler.store import keys
from scheduler.store.base import Delete
from scheduler.store.memory import MemoryStore
from tests.portal.api.conftest import picture, show, store

__all__ = ["picture", "show", "store"]
Show = Callable[..., None]
NOW_MS = 1_000_000


def intent(job: str, team: str = "vision", gpus: int = 2) -> JobIntent:
    return JobIntent(JobSpec(job, team, gpus, "H100", 2, 3_600_000, NOW_MS, name=f"name of {job}", owner="a@x.y"))


def running(*slices: Slice, phase: Phase = Phase.RUNNING) -> JobDecision:
    return JobDecision(phase=phase, attempt=1, allocation=slices, gpu_type="H100", bound_ms=NOW_MS)


@pytest.fixture
def hosts(show: Show) -> None:
    for name in ("h1", "h2", "h3"):
        show({keys.intent_node(name): NodeIntent(name, "az1", "r1", "H100", gpus=4), keys.alive(name): b"boot"})


@pytest.fixture
def board(hosts: None, picture: Picture) -> ClusterBoard:
    made = ClusterBoard(picture, clock.now_ms)
    made.load()
    return made


def slots(payload: dict[str, Any]) -> dict[str, list[Any]]:
    """Each host's GPUs with the id of the job that holds them."""
    return {row[0]: [payload["jobs"][slot][0] if slot >= 0 else slot for slot in row[-1]] for row in payload["nodes"]}


def test_a_placed_gang_changes_its_hosts_and_no_others(board: ClusterBoard, show: Show) -> None:
    show({keys.intent_job("a"): intent("a"), keys.decision_job("a"): running(Slice("h1", (0,)), Slice("h2", (3,)))})
    _, change = board.take(Touched(9, frozenset("a"), frozenset(["h1", "h2", "h3"])))
    assert change is not None
    assert slots(change) == {"h1": ["a", -1, -1, -1], "h2": [-1, -1, -1, "a"]}
    assert slots(board.snapshot())["h3"] == [-1] * 4


def test_a_phase_alone_changes_the_gangs_hosts(board: ClusterBoard, show: Show) -> None:
    show({keys.intent_job("a"): intent("a"), keys.decision_job("a"): running(Slice("h1", (0,)), phase=Phase.STARTING)})
    board.take(Touched(9, frozenset("a"), frozenset(["h1"])))
    show({keys.decision_job("a"): running(Slice("h1", (0,)))})
    _, change = board.take(Touched(10, frozenset("a"), frozenset(["h1"])))
    assert change is not None
    assert change["jobs"] == [["a", "vision", "RUNNING", 2, 2, 4600]]


def test_what_looks_alike_is_no_change(board: ClusterBoard) -> None:
    assert board.take(Touched(9, nodes=frozenset(["h1", "h2"])))[1] is None
    assert board.take(Touched(9, jobs=frozenset("z")))[1] is None


def test_a_host_that_left_is_named(board: ClusterBoard, store: MemoryStore, picture: Picture) -> None:
    committed = store.commit([], [Delete(keys.intent_node("h2"))])
    assert picture.wait_for(committed.revision, 10)
    _, change = board.take(Touched(9, nodes=frozenset(["h2", "never-was"])))
    assert change == {"nodes": [], "jobs": [], "gone": ["h2"]}
    assert sorted(slots(board.snapshot())) == ["h1", "h3"]


def test_deltas_and_snapshot_tell_the_same(board: ClusterBoard, show: Show, picture: Picture) -> None:
    """A reader that applied every delta holds what a newcomer is given."""
    held = {row[0]: row for row in with_jobs(board.snapshot())}
    steps: list[dict[str, Any]] = [
        {keys.intent_job("a"): intent("a"), keys.decision_job("a"): running(Slice("h1", (0, 1)))},
        {keys.intent_job("b"): intent("b"), keys.decision_job("b"): running(Slice("h1", (2,)), Slice("h3", (0,)))},
        {keys.decision_job("a"): JobDecision()},
        {keys.intent_node("h2"): NodeIntent("h2", "az1", "r1", "H100", gpus=4, cordon="fan")},
    ]
    for records in steps:
        show(records)
        _, change = board.take(Touched(picture.revision, nodes=frozenset(["h1", "h2", "h3"])))
        assert change is not None
        held |= {row[0]: row for row in with_jobs(change)}
    fresh = ClusterBoard(picture, clock.now_ms)
    fresh.load()
    assert held == {row[0]: row for row in with_jobs(fresh.snapshot())}


def test_compact_undoes_with_jobs() -> None:
    found = {"nodes": [["h1", "az", "r", "H100", "READY", [1, 0, -1, -2, 1]]], "jobs": [["a", 1], ["b", 2]]}
    rows = with_jobs(found)
    assert with_jobs(compact(rows)) == rows


@pytest.fixture
def queue(picture: Picture) -> QueueBoard:
    return QueueBoard(picture, Policy, lambda: NOW_MS)


def test_the_queue_tells_order_by_keys_that_name_no_job(queue: QueueBoard, hosts: None, show: Show) -> None:
    show({keys.intent_job("job-a"): intent("job-a"), keys.intent_job("job-b"): intent("job-b", "speech")})
    queue.load()
    snapshot = queue.snapshot()
    assert snapshot["order"] == [key_of("job-a"), key_of("job-b")]
    assert (snapshot["total"], snapshot["gpus"]) == (2, 4)
    assert not any("job" in row["key"] for row in snapshot["put"])


def test_a_job_that_leaves_the_queue_changes_no_other_row(queue: QueueBoard, hosts: None, show: Show) -> None:
    show({keys.intent_job(name): intent(name) for name in ("a", "b", "c")})
    queue.load()
    show({keys.decision_job("a"): running(Slice("h1", (0, 1)))})
    _, change = queue.take(Touched(9))
    assert change == {
        "put": [],
        "gone": [key_of("a")],
        "order": [key_of("b"), key_of("c")],
        "total": 2,
        "gpus": 4,
    }
    assert queue.take(Touched(10))[1] is None


@pytest.mark.parametrize(
    ("told", "eta_ms", "tells"),
    [
        pytest.param(None, None, None, id="unknown"),
        pytest.param(None, NOW_MS + 5_000, 0, id="any moment"),
        pytest.param(None, NOW_MS + 600_000, NOW_MS + 600_000, id="new"),
        pytest.param(NOW_MS + 600_000, NOW_MS + 620_000, NOW_MS + 600_000, id="about what was told"),
        pytest.param(NOW_MS + 600_000, NOW_MS + 700_000, NOW_MS + 700_000, id="later than was told"),
        pytest.param(0, NOW_MS + 60_000, NOW_MS + 60_000, id="not at any moment any more"),
    ],
)
def test_an_expected_start_is_told_anew_once_it_has_moved(
    told: int | None, eta_ms: int | None, tells: int | None
) -> None:
    assert steady(told, eta_ms, NOW_MS) == tells


def test_the_queue_tells_expected_starts(picture: Picture, hosts: None, show: Show) -> None:
    show({keys.intent_job("a"): intent("a")})
    board = QueueBoard(picture, Policy, lambda: NOW_MS, lambda: Expected(starts={"a": NOW_MS + 90_000}))
    board.load()
    (row,) = board.snapshot()["put"]
    assert row["eta_ms"] == NOW_MS + 90_000


def test_names_are_for_those_who_may_know_them(queue: QueueBoard, hosts: None, show: Show) -> None:
    show({keys.intent_job("a"): intent("a"), keys.intent_job("b"): intent("b", "speech")})
    queue.load()
    seen = {row["team"]: row for row in redacted(queue.snapshot(), {"vision"})["put"]}
    assert (seen["vision"]["id"], seen["vision"]["name"]) == ("a", "name of a")
    assert {seen["speech"][name] for name in ("id", "name", "owner")} == {None}
    assert seen["speech"]["gpus"] == 2
    assert redacted(queue.snapshot(), None) == queue.snapshot()


def test_a_start_is_told_anew_when_a_host_that_it_waits_for_says_what_is_in_the_way(
    hosts: None, show: Show, picture: Picture
) -> None:
    board = JobBoard(picture, "a")
    starting = running(Slice("h1", (0,)), phase=Phase.STARTING)
    show({keys.intent_job("a"): intent("a"), keys.decision_job("a"): starting})
    board.load()
    hindered = GangReport("a", 1, (RankReport(0, RankState.PREPARING),), hindrance="no space left")
    show({keys.report("h1"): NodeReport("00000001-00000000", (hindered,))})
    assert board.take(Touched(8, nodes=frozenset({"h2"}))) == (8, None)
    _, change = board.take(Touched(9, nodes=frozenset({"h1"})))
    assert change is not None
    assert [part["unready"] for part in change["job"]["allocation"]] == ["no space left"]


def test_a_job_is_told_from_its_arrival_to_its_end(hosts: None, show: Show, picture: Picture) -> None:
    board = JobBoard(picture, "a")
    board.load()
    assert board.snapshot() == {"job": None}
    show({keys.intent_job("a"): intent("a")})
    assert board.take(Touched(5, frozenset("b"))) == (5, None)
    _, change = board.take(Touched(6, frozenset("a")))
    assert change is not None
    assert change["job"]["phase"] == "PENDING"
    show({keys.decision_job("a"): running(Slice("h1", (0, 1)))})
    _, change = board.take(Touched(7, frozenset("a")))
    assert change is not None
    assert [dict(part) for part in change["job"]["allocation"]] == [
        {"node": "h1", "rack": "r1", "az": "az1", "gpus": [0, 1], "unready": None}
    ]
