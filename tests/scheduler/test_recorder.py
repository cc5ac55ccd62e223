from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import clock, recorder
from scheduler.core.types import Event, EventKind, JobDecision, JobIntent, JobSpec, Phase, Slice
from scheduler.models import Job, JobEvent
from scheduler.store import codec, keys
from scheduler.store.base import Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.builders import row_of_job
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed

pytestmark = pytest.mark.django_db(transaction=True)

NOW = 1_000_000
GPUS = {"n1": [0, 1, 2, 3], "n2": [0, 1, 2, 3]}
ALLOCATION = (Slice("n1", (0, 1, 2, 3)), Slice("n2", (0, 1, 2, 3)))


class World:
    """A store, and the leader's hand that commits decisions with their events."""

    def __init__(self) -> None:
        self.store = MemoryStore(lambda: 0)
        self.entries = 0

    def job(self, name: str, team: QuotaNode, user: User, after: Iterable[Job] = ()) -> Job:
        job = row_of_job(JobSpec(name, team.name, 8, "H100", 2, 3_600_000, 0), team, user)
        job.after.set(after)
        spec = JobSpec(name, team.name, 8, "H100", 2, 3_600_000, 0, after=tuple(first.pk for first in after))
        self.store.commit([], [Put(keys.intent_job(name), codec.encode(JobIntent(spec)))])
        return job

    def commit(self, *events: Event, decision: JobDecision | None = None) -> int:
        self.entries += 1
        operations = [Put(keys.journal(f"{self.entries:06}"), codec.encode(list(events)))]
        if decision is not None:
            assert events[0].job is not None
            operations.append(Put(keys.decision_job(events[0].job), codec.encode(decision)))
        return self.store.commit([], operations).revision

    def bind(self, job: str, attempt: int = 1) -> None:
        bound = event(EventKind.BIND, job, Phase.STARTING, attempt, gpus=GPUS, fence=1)
        self.commit(bound, decision=JobDecision(Phase.STARTING, attempt, allocation=ALLOCATION))

    def start(self, job: str, attempt: int = 1) -> None:
        started = event(EventKind.START, job, Phase.RUNNING, attempt)
        self.commit(started, decision=JobDecision(Phase.RUNNING, attempt, allocation=ALLOCATION))

    def end(self, job: str, state: Phase = Phase.SUCCEEDED, attempt: int = 1) -> None:
        ended = event(EventKind.END, job, state, attempt, state=state.value)
        freed = event(EventKind.RELEASE, job, state, attempt, gpus=GPUS)
        self.commit(ended, freed, decision=JobDecision(state, attempt))

    def live(self) -> set[str]:
        """The jobs of which anything is in the store."""
        folders = (keys.INTENT_JOBS, keys.DECISION_JOBS)
        return {entry.key[len(folder) :] for folder in folders for entry in self.store.read(folder).entries}


def event(kind: EventKind, job: str, phase: Phase, attempt: int = 1, at_ms: int = NOW, **detail: Any) -> Event:
    return Event(kind, at_ms, job, attempt=attempt, detail={"phase": phase.value, **detail})


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def team() -> QuotaNode:
    return QuotaNode.objects.create(name="vision")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", "ada@example.com")


def told(job: str) -> list[str]:
    return [row.kind for row in JobEvent.objects.filter(job_id=job).order_by("revision", "position")]


def test_a_life_is_told_from_bind_to_end(world: World, team: QuotaNode, ada: User) -> None:
    world.job("j1", team, ada)
    world.bind("j1")
    assert recorder.record(world.store, NOW) == 1
    job = Job.objects.get()
    assert (job.state, job.attempt) == ("STARTING", 1)
    assert job.allocation == [{"node": "n1", "gpus": [0, 1, 2, 3]}, {"node": "n2", "gpus": [0, 1, 2, 3]}]
    world.start("j1")
    world.end("j1")
    assert recorder.record(world.store, NOW) == 2
    job.refresh_from_db()
    assert (job.state, job.allocation, job.in_store) == ("SUCCEEDED", [], False)
    assert job.started_at == job.ended_at == clock.to_datetime(NOW)
    assert told("j1") == ["bind", "start", "end", "release"]
    assert world.live() == set()
    assert not world.store.read(keys.JOURNAL).entries


@pytest.mark.parametrize(
    ("events", "fields"),
    [
        pytest.param(
            [event(EventKind.REASON, "j1", Phase.PENDING, 0, reason="TOPOLOGY")],
            {"state": "PENDING", "reason": "TOPOLOGY"},
            id="a reason is kept while the job waits",
        ),
        pytest.param(
            [
                event(EventKind.REASON, "j1", Phase.PENDING, 0, reason="TOPOLOGY"),
                event(EventKind.BIND, "j1", Phase.STARTING, gpus=GPUS),
            ],
            {"state": "STARTING", "reason": ""},
            id="a bind ends the reason",
        ),
        pytest.param(
            [
                event(EventKind.BIND, "j1", Phase.STARTING, gpus=GPUS),
                event(EventKind.START, "j1", Phase.RUNNING),
                event(EventKind.STOP, "j1", Phase.STOPPING, cause="drain"),
                event(EventKind.RELEASE, "j1", Phase.PENDING, gpus=GPUS),
            ],
            {"state": "PENDING", "stop_cause": "drain", "allocation": [], "attempt": 1, "ended_at": None},
            id="a stopped job waits again and its cause stays",
        ),
        pytest.param(
            [
                event(EventKind.START, "j1", Phase.RUNNING, 1, at_ms=5_000),
                event(EventKind.START, "j1", Phase.RUNNING, 2, at_ms=9_000),
            ],
            {"attempt": 2, "started_at": clock.to_datetime(5_000)},
            id="the first start stays the start",
        ),
        pytest.param(
            [
                event(EventKind.END, "j1", Phase.CANCELLED, 0, state="CANCELLED"),
                event(EventKind.START, "j1", Phase.RUNNING),
            ],
            {"state": "CANCELLED", "attempt": 0, "started_at": None},
            id="an ended job never changes again",
        ),
    ],
)
def test_a_row_follows_its_events(
    world: World, team: QuotaNode, ada: User, events: list[Event], fields: dict[str, Any]
) -> None:
    job = world.job("j1", team, ada)
    for one in events:
        world.commit(one)
    recorder.record(world.store, NOW)
    job.refresh_from_db()
    assert {name: getattr(job, name) for name in fields} == fields


def test_entries_are_told_in_the_order_of_their_commits(world: World, team: QuotaNode, ada: User) -> None:
    job = world.job("j1", team, ada)
    for key, phase in (("zz", Phase.STARTING), ("mm", Phase.RUNNING), ("aa", Phase.STOPPING)):
        told_of = [event(EventKind.REASON, "j1", phase)]
        world.store.commit([], [Put(keys.journal(key), codec.encode(told_of))])
    recorder.record(world.store, NOW)
    job.refresh_from_db()
    assert job.state == "STOPPING"


def test_an_older_revision_changes_nothing(world: World, team: QuotaNode, ada: User) -> None:
    job = world.job("j1", team, ada)
    world.start("j1")
    Job.objects.update(state="RUNNING", attempt=3, revision=1_000)
    recorder.record(world.store, NOW)
    job.refresh_from_db()
    assert (job.attempt, job.revision) == (3, 1_000)
    assert told("j1") == ["start"], "history has it all the same"


def test_what_is_no_event_is_kept_and_holds_up_nobody(world: World, team: QuotaNode, ada: User) -> None:
    world.job("j1", team, ada)
    world.store.commit([], [Put(keys.journal("000000"), b"\xff{")])
    world.bind("j1")
    recorder.record(world.store, NOW)
    kept = JobEvent.objects.get(kind="garbled")
    assert bytes.fromhex(kept.detail["hex"]) == b"\xff{"
    assert told("j1") == ["bind"]
    assert not world.store.read(keys.JOURNAL).entries


def test_an_event_of_a_job_that_was_never_submitted_here_keeps_its_name(world: World) -> None:
    world.commit(event(EventKind.REASON, "stranger", Phase.PENDING, reason="TOPOLOGY"))
    recorder.record(world.store, NOW)
    kept = JobEvent.objects.get()
    assert (kept.job, kept.detail["job"]) == (None, "stranger")


def test_a_job_that_a_live_one_waits_for_stays_until_that_has_ended(world: World, team: QuotaNode, ada: User) -> None:
    first = world.job("first", team, ada)
    world.job("second", team, ada, after=[first])
    world.end("first")
    recorder.record(world.store, NOW)
    assert world.live() == {"first", "second"}
    world.end("second")
    recorder.record(world.store, NOW)
    recorder.record(world.store, NOW)
    assert world.live() == set()


def test_a_job_that_lives_in_the_store_stays_there_whatever_its_row_says(
    world: World, team: QuotaNode, ada: User
) -> None:
    world.job("j1", team, ada)
    world.start("j1")
    Job.objects.update(state="SUCCEEDED")
    recorder.record(world.store, NOW)
    assert world.live() == {"j1"}


def test_a_second_recorder_leaves_the_work_to_the_first(world: World, team: QuotaNode, ada: User) -> None:
    world.job("j1", team, ada)
    world.bind("j1")
    database = settings.DATABASES["default"]
    with psycopg.connect(
        dbname=connection.settings_dict["NAME"],
        host=database["HOST"],
        port=database["PORT"] or None,
        user=database["USER"],
        password=database["PASSWORD"],
    ) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [recorder._ALONE])
        assert recorder.record(world.store, NOW) == 0
        # Not by closing the connection: the server gives the lock up a moment after that.
        other.execute("SELECT pg_advisory_unlock(%s)", [recorder._ALONE])
    assert recorder.record(world.store, NOW) == 1


def test_nothing_is_lost_while_the_store_is_away(world: World, team: QuotaNode, ada: User) -> None:
    world.job("j1", team, ada)
    world.bind("j1")
    world.store.fail()
    with pytest.raises(StoreUnavailable):
        recorder.record(world.store, NOW)
    world.store.recover()
    assert recorder.record(world.store, NOW) == 1


def test_who_watches_a_job_is_told(world: World, team: QuotaNode, ada: User) -> None:
    world.job("j1", team, ada)

    async def watch() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add("job.j1", channel)
        await sync_to_async(world.bind)("j1")
        await sync_to_async(recorder.record)(world.store, NOW)
        message: dict[str, Any] = await layer.receive(channel)
        await layer.group_discard("job.j1", channel)
        return message

    message = async_to_sync(watch)()
    assert message == {"type": "job.changed", "id": "j1", "revision": Job.objects.get().revision}


def test_without_redis_history_is_recorded_all_the_same(
    world: World, team: QuotaNode, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away:
        async def group_send(self, group: str, message: object) -> None:
            raise ConnectionRefusedError("no Redis")

    monkeypatch.setattr(recorder, "get_channel_layer", Away)
    world.job("j1", team, ada)
    world.bind("j1")
    assert recorder.record(world.store, NOW) == 1
    assert told("j1") == ["bind"]


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_a_recorder_killed_at_any_step_leaves_nothing_out_and_nothing_twice(
    team: QuotaNode, ada: User, after: bool
) -> None:
    for fuse in every_cut(after):
        world = World()
        world.job("j1", team, ada)
        world.job("j2", team, ada)
        world.bind("j1")
        world.bind("j2")
        world.start("j1")
        world.end("j1", Phase.FAILED)
        with killed(fuse), fused_database(fuse):
            recorder.record(FusedStore(world.store, fuse), NOW)
        recorder.record(world.store, NOW)
        assert told("j1") == ["bind", "start", "end", "release"]
        assert told("j2") == ["bind"]
        assert dict(Job.objects.values_list("pk", "state")) == {"j1": "FAILED", "j2": "STARTING"}
        assert world.live() == {"j2"}
        assert not world.store.read(keys.JOURNAL).entries
        Job.objects.all().delete()
