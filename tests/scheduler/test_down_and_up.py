"""The whole way of a job through both databases, killed between any two steps: there once, bound once, told once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import outbox, recorder, services
from scheduler.core.types import (
    GangReport,
    JobDecision,
    NodeIntent,
    NodeReport,
    Policy,
    QuotaTree,
    RankReport,
    RankState,
)
from scheduler.ids import Ulids
from scheduler.models import Job, JobEvent, Outbox
from scheduler.runtime import Runtime
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put, Store
from scheduler.store.etcd import EtcdStore
from scheduler.store.memory import MemoryStore
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed
from tests.scheduler.test_services import REQUEST

pytestmark = pytest.mark.django_db(transaction=True)

NOW = 1_767_225_600_000


class ControlPlane:
    """Web, scheduler, recorder and the agents of two hosts, each one step at a time, over one store."""

    def __init__(self, store: Store, user: User, team: QuotaNode, use: Callable[[Any], None]) -> None:
        self.now_ms = NOW
        self.store: Any = store
        self.user, self.team = user, team
        self.ids = Ulids(lambda: self.now_ms, random.Random(3).getrandbits)
        self.use = use
        self.answered: set[str] = set()
        self.restart(store)
        self.put(keys.INTENT_QUOTA, QuotaTree(open=True))
        for name in ("n1", "n2"):
            self.put(keys.intent_node(name), NodeIntent(name, "az1", "r1", "H100"))
            self.put(keys.alive(name), "boot")
            self.put(keys.report(name), NodeReport("boot"))

    def restart(self, store: Any) -> None:
        """New processes on this store; the lease of a leader that died has run out by then."""
        self.store = store
        self.use(store)
        self.scheduler = Runtime(
            store,
            "worker",
            lambda _: Policy(),
            ids=self.ids,
            now_ms=lambda: self.now_ms,
            monotonic_ms=lambda: self.now_ms,
        )

    def put(self, key: str, record: object) -> None:
        self.store.commit([], [Put(key, codec.encode(record))])

    def submit(self, key: str) -> None:
        done = services.submit(self.user, self.team, REQUEST, idempotency_key=key, now_ms=self.now_ms, ids=self.ids)
        self.answered.add(done.job.pk)

    def tick(self) -> None:
        self.now_ms += 1_000
        self.scheduler.step(self.now_ms)

    def agents(self, real: Store, state: RankState) -> None:
        """The agents, which no death here concerns, report what they were told to run."""
        gangs: dict[str, list[GangReport]] = {"n1": [], "n2": []}
        for entry in real.read(keys.DECISION_JOBS).entries:
            decision = codec.decode(JobDecision, entry.value)
            for part in decision.allocation:
                ranks = tuple(RankReport(rank, state) for rank in range(len(part.gpus)))
                job = entry.key.removeprefix(keys.DECISION_JOBS)
                gangs[part.node].append(GangReport(job, decision.attempt, ranks))
        for node, reported in gangs.items():
            real.commit([], [Put(keys.report(node), codec.encode(NodeReport("boot", tuple(reported))))])

    def live_through(self, real: Store) -> None:
        """Two jobs, from submission to their end and out of the store."""
        self.submit("k1")
        self.tick()
        self.submit("k2")
        for state in (RankState.READY, RankState.RUNNING, RankState.SUCCEEDED):
            self.tick()
            recorder.record(self.store, self.now_ms)
            self.agents(real, state)
        self.tick()
        recorder.record(self.store, self.now_ms)

    def recover(self, real: Store) -> None:
        """What every process does after a start, the clients' repeats included."""
        leader = real.get(keys.LEADER)
        if leader is not None:
            real.revoke(leader.lease)
        self.restart(real)
        outbox.sweep(real)
        self.submit("k1")
        self.submit("k2")
        for state in (RankState.READY, RankState.RUNNING, RankState.SUCCEEDED, RankState.SUCCEEDED):
            self.tick()
            self.agents(real, state)
        self.tick()
        while recorder.record(real, self.now_ms):
            pass


def check(plane: ControlPlane, real: Store) -> None:
    jobs = list(Job.objects.all())
    assert {job.pk for job in jobs} >= plane.answered, "what was answered is there"
    assert len(jobs) == 2, "and once"
    for job in jobs:
        kinds = [row.kind for row in JobEvent.objects.filter(job=job).order_by("revision", "position")]
        for kind in ("bind", "start", "end", "release"):
            assert kinds.count(kind) == 1, f"{kind} in {kinds}"
        assert (job.state, job.attempt, job.allocation, job.in_store) == ("SUCCEEDED", 1, [], False)
    assert not real.read(keys.INTENT_JOBS).entries
    assert not real.read(keys.DECISION_JOBS).entries
    assert not real.read(keys.JOURNAL).entries
    assert not Outbox.objects.exists()


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada", "ada@example.com")


@pytest.fixture
def team() -> QuotaNode:
    return QuotaNode.objects.create(name="vision")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    return lambda store: monkeypatch.setattr("scheduler.connections.store", lambda: store)


@pytest.fixture
def etcd(etcd_url: str) -> Iterator[Store]:
    store = EtcdStore(etcd_url)
    yield store
    wipe(store)
    store.close()


def wipe(store: Store) -> None:
    for entry in store.read(keys.PREFIX).entries:
        store.commit([], [Delete(entry.key)])


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_killed_at_any_step(user: User, team: QuotaNode, use: Callable[[Any], None], after: bool) -> None:
    for fuse in every_cut(after):
        real = MemoryStore(lambda: 0)
        plane = ControlPlane(real, user, team, use)
        plane.restart(FusedStore(real, fuse))
        with killed(fuse), fused_database(fuse):
            plane.live_through(real)
        plane.recover(real)
        check(plane, real)
        Job.objects.all().delete()
        JobEvent.objects.all().delete()


@pytest.mark.slow
def test_killed_at_any_step_on_etcd(user: User, team: QuotaNode, use: Callable[[Any], None], etcd: Store) -> None:
    for fuse in every_cut(after=True):
        wipe(etcd)
        plane = ControlPlane(etcd, user, team, use)
        plane.restart(FusedStore(etcd, fuse))
        with killed(fuse), fused_database(fuse):
            plane.live_through(etcd)
        plane.recover(etcd)
        check(plane, etcd)
        Job.objects.all().delete()
        JobEvent.objects.all().delete()
