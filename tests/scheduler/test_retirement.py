"""Jobs leave the store when they are over, and nothing that was on its way meanwhile brings one back."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import outbox, retirement
from scheduler.core.types import JobDecision, JobIntent, JobSpec, Phase
from scheduler.models import Job, Outbox
from scheduler.store import codec, keys
from scheduler.store.base import Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.builders import row_of_job
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed
from tests.scheduler.store.seam import VirtualClock

pytestmark = pytest.mark.django_db(transaction=True)

SPEC = JobSpec("j1", "vision", 8, "H100", 2, 3_600_000, 0)


class Late:
    """A store that answers no commit: what was sent stays on its way until ``arrive``."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._sent: list[Any] = []

    def get(self, key: str) -> Any:
        return self._store.get(key)

    def commit(self, *sent: Any) -> Any:
        self._sent.append(sent)
        raise StoreUnavailable("no answer in time")

    def arrive(self) -> list[bool]:
        return [self._store.commit(*sent).ok for sent in self._sent]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def job() -> Job:
    return row_of_job(SPEC, QuotaNode.objects.create(name="vision"), User.objects.create_user("ada", "ada@example.com"))


def row(version: int = 1) -> Outbox:
    intent = JobIntent(SPEC, version=version, cancel=version > 1)
    return Outbox.objects.create(key=keys.intent_job("j1"), value=codec.encode(intent), version=version)


def live_and_end(store: MemoryStore) -> None:
    """The job runs to its end, and history has it."""
    store.commit([], [Put(keys.decision_job("j1"), codec.encode(JobDecision(Phase.SUCCEEDED, attempt=1)))])
    Job.objects.update(state=Phase.SUCCEEDED.value)


def in_store(store: MemoryStore) -> list[str]:
    return [entry.key for folder in (keys.INTENT_JOBS, keys.DECISION_JOBS) for entry in store.read(folder).entries]


@pytest.mark.parametrize("version", [1, 2])
def test_a_delivery_that_arrives_after_the_jobs_life_changes_nothing(
    store: MemoryStore, job: Job, version: int
) -> None:
    late = Late(store)
    with pytest.raises(StoreUnavailable):
        outbox.deliver(row(version), late)  # type: ignore[arg-type]
    assert outbox.sweep(store) == 1
    live_and_end(store)
    assert retirement.retire(store) == 1
    assert late.arrive() == [False]
    assert in_store(store) == []
    assert not Job.objects.filter(in_store=True).exists()


def test_before_the_jobs_end_it_is_just_late(store: MemoryStore, job: Job) -> None:
    late = Late(store)
    with pytest.raises(StoreUnavailable):
        outbox.deliver(row(), late)  # type: ignore[arg-type]
    assert late.arrive() == [True]
    assert outbox.sweep(store) == 1
    entry = store.get(keys.intent_job("j1"))
    assert entry is not None
    assert entry.create_revision == entry.mod_revision, "put once"


def test_a_delivery_of_a_job_that_has_left_ends_and_puts_nothing(store: MemoryStore, job: Job) -> None:
    """Rows and store at odds, as after a restored backup of PostgreSQL."""
    live_and_end(store)
    retirement.retire(store)
    Job.objects.update(state=Phase.PENDING.value, in_store=True)
    row()
    assert outbox.sweep(store) == 1
    assert in_store(store) == []


def test_the_mark_ends_by_itself(store: MemoryStore, clock: VirtualClock, job: Job) -> None:
    outbox.deliver(row(), store)
    live_and_end(store)
    retirement.retire(store)
    assert store.get(keys.left_job("j1")) is not None
    clock.sleep(retirement.MARK_S + 1)
    assert store.read(keys.PREFIX).entries == ()


def test_a_pass_without_work_asks_the_store_for_nothing(job: Job) -> None:
    away: Any = None
    assert retirement.retire(away) == 0


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_a_retirement_killed_at_any_step_is_finished_and_keeps_late_deliveries_out(job: Job, after: bool) -> None:
    for fuse in every_cut(after):
        store = MemoryStore(lambda: 0)
        late = Late(store)
        with pytest.raises(StoreUnavailable):
            outbox.deliver(row(), late)  # type: ignore[arg-type]
        outbox.sweep(store)
        live_and_end(store)
        with killed(fuse), fused_database(fuse):
            retirement.retire(FusedStore(store, fuse))  # type: ignore[arg-type]
        retirement.retire(store)
        assert late.arrive() == [False]
        assert in_store(store) == []
        assert not Job.objects.filter(in_store=True).exists()
        Job.objects.update(state=Phase.PENDING.value, in_store=True)
