from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from django.db import transaction

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import outbox
from scheduler.core.types import JobIntent, JobSpec, NodeIntent, Phase
from scheduler.models import Job, Outbox
from scheduler.store import codec, keys
from scheduler.store.base import Committed, Compare, Operation, Put, StoreUnavailable, TooLarge
from scheduler.store.memory import MemoryStore
from tests.scheduler.builders import row_of_job
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed

pytestmark = pytest.mark.django_db(transaction=True)

NODE = NodeIntent("n1", "az1", "r1", "H100")
SPEC = JobSpec("j1", "vision", 8, "H100", 2, 3_600_000, 0)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: 0)


@pytest.fixture
def job() -> Job:
    team = QuotaNode.objects.create(name="vision")
    ada = User.objects.create_user("ada", "ada@example.com")
    return row_of_job(SPEC, team, ada)


def row_of(intent: NodeIntent | JobIntent) -> Outbox:
    key = keys.intent_node(intent.name) if isinstance(intent, NodeIntent) else keys.intent_job(intent.spec.id)
    return Outbox.objects.create(key=key, value=codec.encode(intent), version=intent.version)


def held(store: MemoryStore, intent: NodeIntent = NODE) -> NodeIntent | None:
    entry = store.get(keys.intent_node(intent.name))
    return codec.decode(NodeIntent, entry.value) if entry else None


def test_a_delivered_intent_is_in_the_store_and_out_of_the_outbox(store: MemoryStore) -> None:
    outbox.deliver(row_of(NODE), store)
    assert held(store) == NODE
    assert not Outbox.objects.exists()


def test_delivering_a_row_twice_changes_nothing_the_second_time(store: MemoryStore) -> None:
    row = row_of(NODE)
    outbox.deliver(row, store)
    revision = store.read(keys.PREFIX).revision
    outbox.deliver(row, store)
    assert store.read(keys.PREFIX).revision == revision


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2)])
def test_the_latest_version_stays_in_whatever_order_the_rows_arrive(store: MemoryStore, order: tuple[int, ...]) -> None:
    wishes = {version: replace(NODE, version=version, cordon=f"wish {version}") for version in order}
    for version in order:
        outbox.deliver(row_of(wishes[version]), store)
    assert held(store) == wishes[3]


def test_a_lost_race_is_run_again(store: MemoryStore) -> None:
    class Racing:
        """Another process puts version 2 between our look and our put."""

        def __init__(self) -> None:
            self.get = store.get
            self.raced = False

        def commit(self, compares, operations):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                outbox.deliver(row_of(replace(NODE, version=2)), store)
            return store.commit(compares, operations)

    outbox.deliver(row_of(NODE), store)
    outbox.deliver(row_of(replace(NODE, version=3)), Racing())  # type: ignore[arg-type]
    assert held(store) == replace(NODE, version=3)


def test_a_garbled_intent_is_put_anew(store: MemoryStore) -> None:
    outbox.deliver(row_of(NODE), store)
    entry = store.get(keys.intent_node("n1"))
    assert entry is not None
    store.commit([], [Put(entry.key, b"{")])
    outbox.deliver(row_of(replace(NODE, version=2)), store)
    assert held(store) == replace(NODE, version=2)


@pytest.mark.parametrize("state", [Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
def test_a_job_that_has_ended_is_not_put_back(store: MemoryStore, job: Job, state: Phase) -> None:
    row = row_of(JobIntent(SPEC, version=2, cancel=True))
    Job.objects.update(state=state.value)
    outbox.deliver(row, store)
    assert store.get(keys.intent_job("j1")) is None
    assert not Outbox.objects.exists()


def test_while_the_store_is_away_the_row_stays_and_the_transaction_stands(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.outbox.connections.store", lambda: store)
    store.fail()
    with transaction.atomic():
        outbox.enqueue(keys.intent_node("n1"), NODE)
    assert Outbox.objects.count() == 1
    with pytest.raises(StoreUnavailable):
        outbox.sweep(store)
    store.recover()
    assert outbox.sweep(store) == 1
    assert held(store) == NODE


def test_an_intent_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(transaction.TransactionManagementError):
        outbox.enqueue(keys.intent_node("n1"), NODE)


def test_one_row_that_is_too_large_does_not_hold_up_the_others(store: MemoryStore) -> None:
    large = row_of(replace(NODE, name="big", cordon="x" * 2_000_000))
    row_of(NODE)
    assert outbox.sweep(store) == 1
    assert held(store) == NODE
    assert list(Outbox.objects.values_list("pk", flat=True)) == [large.pk]


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_delivery_killed_at_any_step_is_finished_by_the_next(job: Job, version: int, after: bool) -> None:
    intent = JobIntent(SPEC, version=version, hold=version > 1)
    for fuse in every_cut(after):
        store = MemoryStore(lambda: 0)
        if version > 1:
            outbox.deliver(row_of(JobIntent(SPEC)), store)
        row = row_of(intent)
        with killed(fuse), fused_database(fuse):
            outbox.deliver(row, FusedStore(store, fuse))
        outbox.sweep(store)
        entry = store.get(keys.intent_job("j1"))
        assert entry is not None
        assert codec.decode(JobIntent, entry.value) == intent
        assert entry.mod_revision == version + 1, "put once"
        assert not Outbox.objects.exists()


MANY = [replace(NODE, name=f"n{number:03}", version=2, drain="power") for number in range(150)]


class Narrow:
    """A store that takes no more than so many operations at once, and counts its commits."""

    def __init__(self, store: MemoryStore | FusedStore, most: int) -> None:
        self._store, self._most = store, most
        self.read, self.get = store.read, store.get
        self.commits = 0

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        if len(operations) > self._most:
            raise TooLarge(f"{len(operations)} operations")
        self.commits += 1
        return self._store.commit(compares, operations)


@pytest.mark.parametrize(("most", "commits"), [(4096, 1), (128, 3)], ids=["at once", "in parts"])
def test_many_hosts_reach_the_store_together(store: MemoryStore, most: int, commits: int) -> None:
    for intent in MANY[:40]:
        outbox.deliver(row_of(replace(intent, version=1, drain=None)), store)
    narrow = Narrow(store, most)
    outbox.deliver_all([row_of(intent) for intent in MANY], narrow)  # type: ignore[arg-type]
    assert [held(store, intent) for intent in MANY] == MANY
    assert narrow.commits == commits
    assert not Outbox.objects.exists()


def test_a_host_that_somebody_else_changed_meanwhile_keeps_the_later_wish(store: MemoryStore) -> None:
    later = replace(MANY[0], version=3, drain="fire")
    rows = [row_of(intent) for intent in MANY[:3]]

    class Racing(Narrow):
        def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
            if not self.commits:
                outbox.deliver(row_of(later), store)
            return super().commit(compares, operations)

    outbox.deliver_all(rows, Racing(store, 4096))  # type: ignore[arg-type]
    assert [held(store, intent) for intent in MANY[:3]] == [later, *MANY[1:3]]
    assert not Outbox.objects.exists()


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_a_delivery_of_many_killed_at_any_step_is_finished_by_the_next(
    after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "TOGETHER", 2)
    for fuse in every_cut(after):
        store = MemoryStore(lambda: 0)
        rows = [row_of(intent) for intent in MANY[:3]]
        with killed(fuse), fused_database(fuse):
            outbox.deliver_all(rows, Narrow(FusedStore(store, fuse), 2))  # type: ignore[arg-type]
        outbox.sweep(store)
        assert [held(store, intent) for intent in MANY[:3]] == MANY[:3]
        assert not Outbox.objects.exists()
