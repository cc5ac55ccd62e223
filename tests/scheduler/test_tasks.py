"""The tasks on real etcd, Redis and PostgreSQL, called as a worker calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from kombu.common import Broadcast

from portal.accounts.models import User
from portal.celery import app
from quotas.models import QuotaNode
from scheduler import clock, connections, runtime, services, tasks, wakeups
from scheduler.core.types import JobDecision, NodeIntent, NodeReport, Phase, QuotaTree
from scheduler.models import Job, JobEvent, Outbox
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put, Store
from scheduler.store.memory import MemoryStore
from tests.scheduler.test_services import REQUEST

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: names.append(name))
    wakeups.tick.clear()
    wakeups.recording.clear()
    return names


@pytest.fixture
def store(etcd_url: str, settings: Any) -> Iterator[Store]:
    settings.ETCD_URL = etcd_url
    connections.close()
    store = connections.store()
    wipe(store)
    yield store
    runtime.resign_this_process()
    wipe(store)
    connections.close()


def wipe(store: Store) -> None:
    for entry in store.read(keys.PREFIX).entries:
        store.commit([], [Delete(entry.key)])


def put(store: Store, key: str, record: object) -> None:
    store.commit([], [Put(key, codec.encode(record))])


@pytest.fixture
def fleet(store: Store) -> Store:
    put(store, keys.INTENT_QUOTA, QuotaTree(open=True))
    put(store, keys.intent_node("n1"), NodeIntent("n1", "az1", "r1", "H100"))
    put(store, keys.alive("n1"), "boot")
    put(store, keys.report("n1"), NodeReport("boot"))
    return store


def submit() -> Job:
    team = QuotaNode.objects.create(name="vision")
    ada = User.objects.create_user("ada", "ada@example.com")
    return services.submit(ada, team, REQUEST, idempotency_key=None, now_ms=clock.now_ms(), ids=connections.ids).job


def test_from_submission_to_history(fleet: Store, sent: list[str]) -> None:
    job = submit()
    assert sent == ["scheduler.tasks.tick"], "the submission woke the scheduler"
    tasks.tick()
    entry = fleet.get(keys.decision_job(job.pk))
    assert entry is not None
    assert codec.decode(JobDecision, entry.value).phase is Phase.STARTING
    assert sent == ["scheduler.tasks.tick", "scheduler.tasks.record"], "and the decision the recorder"
    tasks.record()
    job.refresh_from_db()
    assert (job.state, job.allocation) == ("STARTING", [{"node": "n1", "gpus": list(range(8))}])
    assert JobEvent.objects.filter(job=None, kind="leader").count() == 1
    assert not fleet.read(keys.JOURNAL).entries


def test_a_wake_up_during_a_tick_is_kept(fleet: Store, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rung after the flag was cleared and before the state was read, it costs a tick too many, never one too few."""
    tasks.tick()
    sent.clear()
    tasks.poke()
    real = fleet.read

    def read_late(prefix: str) -> Any:
        tasks.poke()
        return real(prefix)

    monkeypatch.setattr(fleet, "read", read_late)
    tasks.tick()
    assert sent.count("scheduler.tasks.tick") == 2


def test_the_sweep_delivers_what_was_left_and_wakes_the_scheduler(fleet: Store, sent: list[str]) -> None:
    intent = NodeIntent("n2", "az1", "r1", "H100")
    Outbox.objects.create(key=keys.intent_node("n2"), value=codec.encode(intent), version=1)
    tasks.sweep_outbox()
    assert fleet.get(keys.intent_node("n2")) is not None
    assert sent == ["scheduler.tasks.tick"]
    sent.clear()
    tasks.sweep_outbox()
    assert sent == []


@pytest.mark.parametrize("task", [tasks.tick, tasks.repair_fragmentation, tasks.record, tasks.sweep_outbox])
def test_while_the_store_is_away_a_task_ends_without_an_error(
    task: Any, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = MemoryStore(lambda: 0)
    away.fail()
    monkeypatch.setattr(connections, "store", lambda: away)
    runtime.resign_this_process()
    Outbox.objects.create(key=keys.intent_node("n2"), value=b"{}", version=1)
    task()
    runtime.resign_this_process()
    assert Outbox.objects.count() == 1


def test_every_task_has_a_queue_and_every_beat_expires() -> None:
    queues: dict[str, Any] = {
        name: app.amqp.router.route({}, name)["queue"] for name in app.tasks if name.startswith("scheduler.")
    }
    assert {name: queue.name.split(".")[0] for name, queue in queues.items()} == {
        "scheduler.tasks.tick": "bcast",
        "scheduler.tasks.repair_fragmentation": "bcast",
        "scheduler.tasks.record": "recording",
        "scheduler.tasks.sweep_outbox": "recording",
        "scheduler.tasks.fold_counts": "recording",
        "scheduler.tasks.refresh_forecast": "default",
        "scheduler.tasks.refresh_etas": "eta",
        "scheduler.tasks.train_run_times": "eta",
        "scheduler.tasks.score_etas": "default",
        "scheduler.tasks.carry_out_quota_edits": "default",
        "scheduler.tasks.keep_frames": "default",
        "scheduler.tasks.let_go": "default",
        "scheduler.tasks.look_at_checkpoints": "default",
        "scheduler.tasks.prune_logs": "default",
        "scheduler.tasks.roll_up_usage": "default",
    }
    assert isinstance(queues["scheduler.tasks.tick"], Broadcast)
    beats: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE
    for entry in beats.values():
        assert entry["task"] in app.tasks
        assert entry["options"]["expires"] == entry["schedule"]
