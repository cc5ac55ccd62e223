"""A small cluster in a memory store, for tests of what reads and writes it for the leader."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from scheduler.core.types import (
    HOLDING,
    Event,
    EventKind,
    JobChange,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeIntent,
    Phase,
    Slice,
)
from scheduler.leader import Leader
from scheduler.loader import Loader
from scheduler.store import codec, keys
from scheduler.store.base import Put, Store
from scheduler.store.memory import MemoryStore
from tests.scheduler.store.seam import VirtualClock

TTL_S = 15


class World:
    """``nodes`` hosts of 8 GPUs, and what tests say about jobs. Ids and time are virtual."""

    def __init__(self, store: Store | None = None, nodes: int = 4, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.store = store or MemoryStore(self.clock)
        self._ids = count()
        self.nodes = [f"n{number}" for number in range(nodes)]
        for node in self.nodes:
            self.put(keys.intent_node(node), NodeIntent(node, "az1", "r1", "H100"))

    def put(self, key: str, record: object) -> int:
        done = self.store.commit([], [Put(key, codec.encode(record))])
        assert done.ok
        return done.revision

    def wish(self, job: str, gpus: int = 8, version: int = 1) -> None:
        self.put(keys.intent_job(job), JobIntent(spec(job, gpus), version))

    def leader(self, name: str = "one", store: Store | None = None) -> Leader:
        return Leader(
            store or self.store, name, ids=self.new_id, now_ms=self.clock, monotonic_ms=self.clock, ttl_s=TTL_S
        )

    def loader(self, store: Store | None = None) -> Loader:
        loader = Loader(store or self.store)
        loader.load()
        return loader

    def new_id(self) -> str:
        return f"{next(self._ids):08d}"

    def decisions(self) -> dict[str, JobDecision]:
        """What the store holds, whatever any loader believes."""
        entries = self.store.read(keys.DECISION_JOBS).entries
        return {entry.key.removeprefix(keys.DECISION_JOBS): codec.decode(JobDecision, entry.value) for entry in entries}

    def events(self) -> list[Event]:
        entries = sorted(self.store.read(keys.JOURNAL).entries, key=lambda entry: entry.create_revision)
        return [event for entry in entries for event in codec.decode(list[Event], entry.value)]


def spec(job: str, gpus: int = 8) -> JobSpec:
    return JobSpec(job, "team", gpus, "H100", 2, 3_600_000, 0)


def running(*nodes: str, attempt: int = 1, fence: int = 1) -> JobDecision:
    """A gang on all GPUs of these nodes."""
    slices = tuple(Slice(node, tuple(range(8))) for node in nodes)
    return JobDecision(Phase.RUNNING, attempt, fence, slices, "H100", bound_ms=0, started_ms=0)


def bind(job: str, *nodes: str, fence: int = 1, attempt: int = 1) -> JobChange:
    decision = replace(running(*nodes, attempt=attempt, fence=fence), phase=Phase.STARTING, deadline_ms=600_000)
    return JobChange(job, decision, (Event(EventKind.BIND, 0, job, attempt=attempt),), nodes)


def release(job: str, attempt: int = 1) -> JobChange:
    decision = JobDecision(Phase.PENDING, attempt, gpu_type="")
    return JobChange(job, decision, (Event(EventKind.RELEASE, 0, job, attempt=attempt),))


def assert_sound(decisions: dict[str, JobDecision], gpus: dict[str, int]) -> None:
    """No GPU belongs to two gangs, and each gang has all of its GPUs or none."""
    owners: dict[tuple[str, int], str] = {}
    for job, decision in decisions.items():
        held = [(part.node, gpu) for part in decision.allocation for gpu in part.gpus]
        if decision.phase not in HOLDING:
            assert not held, f"{job} is {decision.phase} and has {held}"
            continue
        assert len(held) == gpus[job], f"the gang of {job} is split"
        for gpu in held:
            assert gpu not in owners, f"{job} and {owners[gpu]} both have {gpu}"
            owners[gpu] = job
