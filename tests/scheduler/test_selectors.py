from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import clock, selectors
from scheduler.core.types import (
    Health,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeDecision,
    NodeIntent,
    NodeReport,
    Phase,
    Policy,
    QuotaTree,
    Reason,
    Slice,
)
from scheduler.expected import Expected
from scheduler.picture import Picture
from scheduler.store import codec, keys
from scheduler.store.base import Operation, Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.builders import row_of_job

NOW = 1_767_225_600_000
WAIT_S = 10.0


def node(name: str, rack: str = "r1", faulty: tuple[int, ...] = (), **more: Any) -> list[Operation]:
    return [
        Put(keys.intent_node(name), codec.encode(NodeIntent(name, "az1", rack, "H100", **more))),
        Put(keys.report(name), codec.encode(NodeReport("boot", faulty_gpus=faulty))),
        Put(keys.alive(name), b"boot"),
    ]


def spec(job_id: str, **more: Any) -> JobSpec:
    plain = JobSpec(job_id, "vision", 8, "H100", 2, 3_600_000, NOW, name=f"run {job_id}", owner="ada@example.com")
    return replace(plain, **more)


def job(name: str, decision: JobDecision | None = None, **more: Any) -> list[Operation]:
    put: list[Operation] = [Put(keys.intent_job(name), codec.encode(JobIntent(spec(name, **more))))]
    if decision is not None:
        put.append(Put(keys.decision_job(name), codec.encode(decision)))
    return put


def running(*places: str, gpus: int = 8) -> JobDecision:
    allocation = tuple(Slice(place, tuple(range(gpus))) for place in places)
    return JobDecision(Phase.RUNNING, 1, 1, allocation, "H100", bound_ms=NOW, started_ms=NOW)


Show = Callable[..., Picture]


@pytest.fixture
def show() -> Iterator[Show]:
    """A picture of what is put into an empty store."""
    shown: list[Picture] = []

    def pictured(*puts: list[Operation]) -> Picture:
        store = MemoryStore(lambda: NOW)
        operations = [operation for put in puts for operation in put]
        operations.append(Put(keys.INTENT_QUOTA, codec.encode(QuotaTree(open=True))))
        store.commit([], operations)
        picture = Picture(lambda: store, lambda: NOW)
        shown.append(picture.start())
        assert picture.wait_for(2, WAIT_S)
        return picture

    yield pictured
    for picture in shown:
        picture.stop()


def test_the_map_shows_each_gpu_of_each_host(show: Show) -> None:
    picture = show(
        node("n1"),
        node("n2", rack="r2", gpus=4, faulty=(3,)),
        [Put(keys.decision_node("n2"), codec.encode(NodeDecision(Health.QUARANTINED)))],
        job("j1", running("n1", gpus=4)),
    )
    shown = selectors.cluster_map(picture, NOW)
    assert shown["jobs"] == [["j1", "vision", "RUNNING", 8, 2, 1767229200]]
    assert sorted(shown["nodes"]) == [
        ["n1", "az1", "r1", "H100", "READY", [0, 0, 0, 0, -1, -1, -1, -1]],
        ["n2", "az1", "r2", "H100", "QUARANTINED", [-1, -1, -1, -2]],
    ]
    assert (shown["revision"], shown["fresh"]) == (2, True)


def test_a_delta_of_the_map_holds_the_hosts_asked_for_and_names_those_that_are_gone(show: Show) -> None:
    picture = show(node("n1"), node("n2"), job("j1", running("n1")), job("j2", running("n2")))
    shown = selectors.map_delta(picture, ["n2", "n9"], NOW)
    assert shown["nodes"] == [["n2", "az1", "r1", "H100", "READY", [0] * 8]]
    assert shown["jobs"] == [["j2", "vision", "RUNNING", 8, 2, 1767229200]]
    assert shown["gone"] == ["n9"]


def test_the_map_of_the_whole_fleet_is_small(show: Show) -> None:
    """1,250 hosts of 32 racks, full of gangs of one to eight hosts: within 80 kB gzip."""
    hosts = [f"az{1 + n // 640}-r{n // 40:02}-h{n % 40:02}" for n in range(1250)]
    puts = [node(name, rack=name.split("-")[1]) for name in hosts]
    at = n = 0
    while at < len(hosts):
        size = 1 + n * 5 % 8
        places = hosts[at : at + size]
        puts.append(job(f"01KDVDNA{n:018}", running(*places), gpus=8 * len(places)))
        at, n = at + size, n + 1
    shown = selectors.cluster_map(show(*puts), NOW)
    raw = json.dumps(shown, separators=(",", ":")).encode()
    assert len(shown["nodes"]) == 1250
    assert len(gzip.compress(raw, 6)) <= 80_000


def test_sums_count_every_gpu_once(show: Show) -> None:
    picture = show(
        node("n1"),
        node("n2"),
        node("n3", cordon="a fan"),
        node("n4", faulty=(0, 1)),
        job("j1", running("n1")),
        job("j2", running("n4", gpus=1)),
        job("j3"),
    )
    found = selectors.cluster(picture, NOW)
    counts = found.gpus["H100"]
    assert (counts.total, counts.used, counts.free, counts.closed, counts.faulty) == (32, 9, 14, 8, 1)
    assert counts.largest_gang == 14
    assert found.hosts == {"READY": 3, "CORDONED": 1}
    assert found.jobs == {"RUNNING": 2, "PENDING": 1}
    assert found.jobs_gpus == {"RUNNING": 16, "PENDING": 8}


def test_hosts_are_listed_with_what_is_on_them(show: Show) -> None:
    picture = show(node("n2", drain="disk"), node("n1"), job("j1", running("n1", gpus=2), gpus=2))
    assert [(row.name, row.free, row.state, row.jobs) for row in selectors.nodes(picture, NOW)] == [
        ("n1", 6, "READY", 1),
        ("n2", 8, "DRAINING", 0),
    ]
    found = selectors.node(picture, "n1", NOW)
    assert found is not None
    assert [slot["job"] for slot in found.slots] == ["j1", "j1", *[None] * 6]
    assert found.held_by[0]["here"] == [0, 1]
    assert selectors.node(picture, "n9", NOW) is None


def test_the_queue_is_in_the_order_of_trying_and_ends_with_those_that_are_not_tried(show: Show) -> None:
    held = [Put(keys.intent_job("held"), codec.encode(JobIntent(spec("held", priority=0), hold=True)))]
    picture = show(job("late", submitted_ms=NOW + 1), job("early"), job("urgent", priority=1), held)
    found = selectors.queue(picture, Policy(), NOW)
    assert [(row.position, row.id) for row in found.rows] == [(1, "urgent"), (2, "early"), (3, "late"), (None, "held")]
    assert (found.total, found.gpus, found.fresh) == (4, 32, True)
    cut = selectors.queue(picture, Policy(), NOW, limit=2)
    assert [row.id for row in cut.rows] == ["urgent", "early"]
    assert cut.total == 4


def test_of_other_teams_the_queue_tells_team_and_size_alone(show: Show) -> None:
    picture = show(job("mine"), job("theirs", team="speech"))
    rows = {row.team: row for row in selectors.queue(picture, Policy(), NOW, teams={"vision"}).rows}
    assert (rows["vision"].id, rows["vision"].name) == ("mine", "run mine")
    assert (rows["speech"].id, rows["speech"].name, rows["speech"].owner, rows["speech"].gpus) == (None, None, None, 8)
    only = selectors.queue(picture, Policy(), NOW, only_teams={"speech"})
    assert [row.id for row in only.rows] == ["theirs"]


@pytest.mark.parametrize(
    ("name", "priority", "position"),
    [
        pytest.param("early", 2, 2, id="one that waits"),
        pytest.param("new", 2, 4, id="one that is on its way stands behind its class"),
        pytest.param("new", 1, 2, id="and before the classes below"),
        pytest.param("run", 2, None, id="one that runs is not in the queue"),
    ],
)
def test_where_a_job_stands(show: Show, name: str, priority: int, position: int | None) -> None:
    picture = show(
        node("n1"),
        job("early"),
        job("late", submitted_ms=NOW + 1),
        job("urgent", priority=1),
        job("run", running("n1")),
    )
    assert selectors.queue_position(picture, Policy(), name, priority, NOW) == position


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(show: Show, reason: Reason) -> None:
    picture = show(node("n1"), job("j1", JobDecision(reason=reason), gpus=64))
    found = selectors.why(picture, Policy(), "j1", NOW)
    assert found is not None
    assert (found.reason, found.gpus, found.free, found.largest_gang) == (reason.value, 64, 8, 8)
    assert found.words.endswith(".")
    assert "{" not in found.words


def test_why_tells_the_numbers_as_they_are_now(show: Show) -> None:
    picture = show(node("n1"), node("n2"), job("j1", JobDecision(reason=Reason.NOT_ENOUGH_FREE_GPUS), gpus=64))
    found = selectors.why(picture, Policy(), "j1", NOW)
    assert found is not None
    assert found.words.startswith("It needs 64 GPUs in one zone; the most that are free are 16 (H100 in az1).")
    assert [(change.field, change.value) for change in found.changes] == [("gpu_count", 16)]


@pytest.mark.parametrize(("teams", "named"), [(None, "j1"), ({"speech"}, None)])
def test_why_names_holders_to_those_who_may_know_them(show: Show, teams: set[str] | None, named: str | None) -> None:
    picture = show(
        node("n1"), job("j1", running("n1")), job("j2", JobDecision(reason=Reason.NOT_ENOUGH_FREE_GPUS), gpus=8)
    )
    found = selectors.why(picture, Policy(), "j2", NOW, teams)
    assert found is not None
    assert [(holder.job, holder.gpus) for holder in found.holders] == [(named, 8)]
    assert found.start_ms == found.holders[0].until_ms


def test_of_a_job_that_does_not_wait_there_is_no_why(show: Show) -> None:
    picture = show(node("n1"), job("j1", running("n1")))
    assert selectors.why(picture, Policy(), "j1", NOW) is None
    assert selectors.why(picture, Policy(), "nobody", NOW) is None


def test_a_live_job_tells_where_its_gang_sits(show: Show) -> None:
    picture = show(node("n1"), node("n2", rack="r2"), job("j1", running("n2", "n1"), gpus=16))
    found = selectors.live_job(picture, "j1")
    assert found is not None
    assert [(part["node"], part["rack"]) for part in found.allocation] == [("n2", "r2"), ("n1", "r1")]
    assert (found.phase, found.attempt, found.cancel) == ("RUNNING", 1, False)
    assert selectors.live_job(picture, "nobody") is None


@pytest.mark.parametrize(
    "read",
    [
        lambda picture: selectors.cluster(picture, NOW),
        lambda picture: selectors.cluster_map(picture, NOW),
        lambda picture: selectors.nodes(picture, NOW),
        lambda picture: selectors.queue(picture, Policy(), NOW),
        lambda picture: selectors.live_job(picture, "j1"),
        lambda picture: selectors.why(picture, Policy(), "j1", NOW),
    ],
)
def test_before_the_first_load_nothing_is_made_up(read: Callable[[Picture], object]) -> None:
    picture = Picture(lambda: MemoryStore(lambda: 0), lambda: 0)
    with pytest.raises(StoreUnavailable):
        read(picture)
    assert selectors.queue_position(picture, Policy(), "j1", 2, NOW) is None


def test_what_is_told_is_plain(show: Show) -> None:
    picture = show(node("n1"), job("j1"))
    json.dumps([asdict(selectors.cluster(picture, NOW)), asdict(selectors.queue(picture, Policy(), NOW))])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param({}, ["j3", "j2", "j1"], id="everything, newest first"),
        pytest.param({"teams": ["vision"]}, ["j3", "j1"], id="a team"),
        pytest.param({"owner": "BOB@example.com"}, ["j2"], id="an owner, however spelt"),
        pytest.param({"states": ["RUNNING", "FAILED"]}, ["j3", "j2"], id="one of several states"),
        pytest.param({"priorities": [1]}, ["j1"], id="a priority"),
        pytest.param({"gpu_type": "A100"}, ["j3"], id="a type"),
        pytest.param({"text": "LLAMA"}, ["j1"], id="a part of the name"),
        pytest.param({"text": "J2"}, ["j2"], id="the beginning of the id"),
        pytest.param({"text": "%lama"}, [], id="a wildcard is no wildcard"),
        pytest.param({"since": clock.to_datetime(NOW + 1000)}, ["j3", "j2"], id="since, inclusive"),
        pytest.param({"until": clock.to_datetime(NOW + 1000)}, ["j1"], id="until, exclusive"),
        pytest.param({"teams": ["vision"], "states": ["RUNNING"]}, ["j3"], id="both"),
    ],
)
def test_lists_are_narrowed_in_one_query(
    wanted: dict[str, Any], found: list[str], django_assert_num_queries: Any
) -> None:
    fill()
    with django_assert_num_queries(1):
        assert [(job.id, job.team.name)[0] for job in selectors.jobs(selectors.JobFilter(**wanted), None)] == found


@pytest.mark.django_db
def test_lists_hold_no_job_of_a_team_that_the_asker_may_not_see() -> None:
    teams = fill()
    everything = selectors.JobFilter()
    assert [job.id for job in selectors.jobs(everything, [teams["speech"].pk])] == ["j2"]
    assert list(selectors.jobs(everything, [])) == []
    assert selectors.state_counts(everything, [teams["vision"].pk]) == {"PENDING": 1, "RUNNING": 1}


def fill() -> dict[str, QuotaNode]:
    ada = User.objects.create_user("ada", "ada@example.com")
    bob = User.objects.create_user("bob", "bob@example.com")
    teams = {name: QuotaNode.objects.create(name=name) for name in ("vision", "speech")}
    rows: list[tuple[str, User, dict[str, Any], str]] = [
        ("vision", ada, {"priority": 1, "name": "llama pretrain"}, "PENDING"),
        ("speech", bob, {}, "FAILED"),
        ("vision", ada, {"gpu_type": "A100"}, "RUNNING"),
    ]
    for n, (team, user, more, state) in enumerate(rows, start=1):
        at = NOW + (n - 1) * 1000
        row_of_job(spec(f"j{n}", team=team, submitted_ms=at, **{"name": "", **more}), teams[team], user, state=state)
    return teams


def test_the_queue_tells_expected_starts_where_they_are_known(show: Show) -> None:
    picture = show(node("n1"), job("j1", JobDecision(), gpus=8), job("j2", JobDecision(), gpus=16))
    found = selectors.queue(picture, Policy(), NOW, expected=Expected(starts={"j1": NOW - 5}))
    assert {row.id: row.eta_ms for row in found.rows} == {"j1": NOW, "j2": None}
