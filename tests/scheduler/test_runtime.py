"""One process of the scheduler, and several, over one store: who leads, what is decided, what a death leaves behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.core.types import (
    CheckpointSpec,
    Event,
    EventKind,
    GangReport,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeIntent,
    NodeReport,
    Phase,
    Policy,
    PolicyIntent,
    QuotaTree,
    RankReport,
    RankState,
    Slice,
)
from scheduler.ids import Ulids
from scheduler.runtime import Runtime
from scheduler.store import codec, keys
from scheduler.store.base import Operation, Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.scheduler.failing import Fuse, FusedStore, every_cut, killed


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class World:
    """A store with two hosts that are alive, and processes of the scheduler."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.ids = Ulids(self.clock, random.Random(1).getrandbits)
        self.put(keys.INTENT_QUOTA, QuotaTree(open=True))
        for name in ("n1", "n2"):
            self.put(keys.intent_node(name), NodeIntent(name, "az1", "r1", "H100"))
            self.put(keys.alive(name), "boot")
            self.put(keys.report(name), NodeReport("boot"))

    def put(self, key: str, record: object) -> None:
        self.store.commit([], [Put(key, codec.encode(record))])

    def submit(self, job: str, gpus: int = 8) -> None:
        self.put(keys.intent_job(job), JobIntent(JobSpec(job, "vision", gpus, "H100", 2, 3_600_000, self.clock.now_ms)))

    def cancel(self, job: str) -> None:
        spec = JobSpec(job, "vision", 8, "H100", 2, 3_600_000, self.clock.now_ms)
        self.put(keys.intent_job(job), JobIntent(spec, version=2, cancel=True))

    def process(self, name: str = "a", store: Any = None, **policy: Any) -> Runtime:
        store = store or self.store
        return Runtime(
            store, name, lambda _: Policy(**policy), ids=self.ids, now_ms=self.clock, monotonic_ms=self.clock
        )

    def step(self, process: Runtime) -> Any:
        self.clock.now_ms += 1_000
        return process.step(self.clock.now_ms)

    def report(self, state: RankState) -> None:
        """Every agent reports its part of every gang in this state."""
        gangs: dict[str, list[GangReport]] = {"n1": [], "n2": []}
        for job, decision in self.decisions().items():
            rank = 0
            for part in decision.allocation:
                ranks = tuple(RankReport(rank + n, state) for n in range(len(part.gpus)))
                rank += len(part.gpus)
                gangs[part.node].append(GangReport(job, decision.attempt, ranks))
        for node, reported in gangs.items():
            self.put(keys.report(node), NodeReport("boot", tuple(reported)))

    def decisions(self) -> dict[str, JobDecision]:
        entries = self.store.read(keys.DECISION_JOBS).entries
        return {entry.key.removeprefix(keys.DECISION_JOBS): codec.decode(JobDecision, entry.value) for entry in entries}

    def decision(self, job: str) -> JobDecision:
        entry = self.store.get(keys.decision_job(job))
        return codec.decode(JobDecision, entry.value) if entry is not None else JobDecision()

    def phases(self) -> dict[str, Phase]:
        return {job: decision.phase for job, decision in self.decisions().items()}

    def journal(self) -> list[Event]:
        entries = sorted(self.store.read(keys.JOURNAL).entries, key=lambda entry: entry.create_revision)
        return [event for entry in entries for event in codec.decode(list[Event], entry.value)]

    def told(self, kind: EventKind) -> list[str | None]:
        return [event.job for event in self.journal() if event.kind is kind]

    def check_no_gpu_twice(self) -> None:
        held = [
            (part.node, gpu)
            for decision in self.decisions().values()
            if decision.phase in {Phase.STARTING, Phase.RUNNING, Phase.STOPPING}
            for part in decision.allocation
            for gpu in part.gpus
        ]
        assert len(held) == len(set(held))


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_is_bound_released_to_run_and_ended(world: World) -> None:
    world.submit("j1", gpus=16)
    process = world.process()
    assert world.step(process).journalled
    assert world.phases() == {"j1": Phase.STARTING}
    world.report(RankState.READY)
    world.step(process)
    assert world.phases() == {"j1": Phase.RUNNING}
    world.report(RankState.SUCCEEDED)
    world.step(process)
    assert world.phases() == {"j1": Phase.SUCCEEDED}
    kinds = [event.kind for event in world.journal() if event.job == "j1" and event.kind is not EventKind.EXIT]
    assert [kind for kind in kinds if kind in {EventKind.BIND, EventKind.START, EventKind.END}] == [
        EventKind.BIND,
        EventKind.START,
        EventKind.END,
    ]


def test_a_step_with_nothing_to_decide_commits_nothing(world: World) -> None:
    process = world.process()
    world.step(process)
    revision = world.store.read(keys.PREFIX).revision
    done = world.step(process)
    assert (done.committed, done.journalled, done.again) == (0, False, False)
    assert world.store.read(keys.PREFIX).revision == revision


def test_while_one_leads_the_others_do_nothing(world: World) -> None:
    leader, other = world.process("a"), world.process("b")
    assert world.step(leader).token is not None
    world.submit("j1")
    assert world.step(other).token is None
    assert world.phases() == {}
    world.step(leader)
    assert world.phases() == {"j1": Phase.STARTING}


def test_the_wake_up_is_cleared_by_the_leader_alone_and_before_it_reads(world: World) -> None:
    leader, other = world.process("a"), world.process("b")
    world.step(leader)
    cleared: list[str] = []
    other.step(world.clock.now_ms, leading=lambda: cleared.append("other"))

    def submit_meanwhile() -> None:
        cleared.append("leader")
        world.submit("j1")

    leader.step(world.clock.now_ms, leading=submit_meanwhile)
    assert cleared == ["leader"]
    assert world.phases() == {"j1": Phase.STARTING}, "what came until then was seen"


def test_another_takes_over_when_the_leader_is_silent(world: World) -> None:
    leader, other = world.process("a"), world.process("b")
    first = world.step(leader).token
    world.submit("j1")
    world.clock.now_ms += 20_000
    second = world.step(other).token
    assert first is not None and second is not None and second > first
    assert world.phases() == {"j1": Phase.STARTING}
    assert world.step(leader).token is None, "the one that woke up knows that it was deposed"
    assert world.told(EventKind.BIND) == ["j1"]


def test_one_that_resigns_hands_over_at_once(world: World) -> None:
    leader, other = world.process("a"), world.process("b")
    world.step(leader)
    leader.resign()
    assert world.step(other).token is not None


def test_while_the_store_is_away_nothing_is_decided_and_nothing_breaks(world: World) -> None:
    process = world.process()
    world.step(process)
    world.submit("j1")
    world.store.fail()
    assert world.step(process).token is None
    world.store.recover()
    world.step(process)
    assert world.phases() == {"j1": Phase.STARTING}


def test_a_clock_that_is_set_back_does_no_harm(world: World) -> None:
    process = world.process()
    world.step(process)
    world.submit("j1")
    assert process.step(world.clock.now_ms - 500_000).committed


class Deaf:
    """A store whose answer to the first commit of a decision is lost: it happened, and nobody was told."""

    def __init__(self, store: MemoryStore, loses: Callable[[list[Operation]], bool]) -> None:
        self._store = store
        self._loses = loses
        self.lost = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    def commit_many(self, commits: Any) -> list[Any]:
        answers: list[Any] = []
        for compares, operations in commits:
            done = self._store.commit(compares, operations)
            if not self.lost and self._loses(operations):
                self.lost += 1
                answers.append(StoreUnavailable("no answer"))
            else:
                answers.append(done)
        return answers


def test_after_a_lost_answer_the_job_is_bound_once(world: World) -> None:
    deaf = Deaf(world.store, lambda operations: any(op.key == keys.decision_job("j1") for op in operations))
    process = world.process(store=deaf)
    world.submit("j1")
    assert world.step(process).again
    assert deaf.lost == 1
    for _ in range(3):
        world.step(process)
    assert world.told(EventKind.BIND) == ["j1"]
    assert world.phases() == {"j1": Phase.STARTING}


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_a_leader_killed_at_any_step_leaves_what_the_next_one_goes_on_from(after: bool) -> None:
    for fuse in every_cut(after):
        world = World()
        for job in ("j1", "j2", "j3"):
            world.submit(job)
        world.cancel("j3")
        with killed(fuse):
            dying = world.process("dying", FusedStore(world.store, fuse))
            world.step(dying)
            world.report(RankState.READY)
            world.step(dying)
        world.clock.now_ms += 20_000
        survivor = world.process("survivor")
        world.step(survivor)
        world.report(RankState.READY)
        world.step(survivor)
        world.check_no_gpu_twice()
        assert world.phases() == {"j1": Phase.RUNNING, "j2": Phase.RUNNING, "j3": Phase.CANCELLED}
        assert sorted(filter(None, world.told(EventKind.BIND))) == ["j1", "j2"]
        assert sorted(filter(None, world.told(EventKind.START))) == ["j1", "j2"]
        assert world.told(EventKind.END) == ["j3"]


def test_a_plan_that_breaks_off_is_not_gone_on_from(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = world.process()
    world.step(process)
    world.submit("j1")

    def broken(snapshot: Any, *_: Any) -> None:
        snapshot.set_job_intent("j1", None)
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("scheduler.runtime.plan", broken)
        with pytest.raises(RuntimeError, match="a bug"):
            world.step(process)
    world.step(process)
    assert world.phases() == {"j1": Phase.STARTING}


def test_the_fuse_of_these_tests_counts_every_call(world: World) -> None:
    fuse = Fuse(None)
    world.submit("j1")
    world.step(world.process(store=FusedStore(world.store, fuse)))
    assert {"get", "grant", "commit", "read", "watch"} <= set(fuse.steps)


def test_a_changed_policy_is_decided_by_from_the_next_step_on() -> None:
    world = World()
    process = Runtime(
        world.store,
        "a",
        lambda changed: Policy(grace_ms=1 if changed is None else int(changed.settings["grace_ms"])),
        ids=world.ids,
        now_ms=world.clock,
        monotonic_ms=world.clock,
    )
    world.submit("j1")
    world.step(process)
    world.report(RankState.READY)
    world.step(process)
    world.put(keys.INTENT_POLICY, PolicyIntent({"grace_ms": 7_000}))
    world.report(RankState.RUNNING)
    world.cancel("j1")
    world.step(process)
    entry = world.store.get(keys.decision_job("j1"))
    assert entry is not None
    stop = codec.decode(JobDecision, entry.value).stop
    assert stop is not None and stop.deadline_ms == world.clock.now_ms + 7_000


def test_moves_are_looked_for_by_the_steps_that_are_asked_to_alone(world: World) -> None:
    now_ms = world.clock.now_ms
    for node in ("n1", "n2"):
        spec = JobSpec(f"half-{node}", "vision", 4, "H100", 2, 86_400_000, now_ms, checkpoint=CheckpointSpec(60_000, 1))
        held = (Slice(node, (0, 1, 2, 3)),)
        world.put(keys.intent_job(spec.id), JobIntent(spec))
        world.put(
            keys.decision_job(spec.id),
            JobDecision(Phase.RUNNING, 1, 1, held, "H100", bound_ms=now_ms, started_ms=now_ms),
        )
    world.report(RankState.RUNNING)
    world.submit("wide")
    process = world.process(repair="auto", repair_every_ms=1)
    for _ in range(3):
        world.step(process)
    assert world.told(EventKind.STOP) == []
    process.step(world.clock.now_ms, repair=True)
    assert len(world.told(EventKind.STOP)) == 1
