"""Three workers that want to lead, over a network that loses, delays and cuts, in an order that chance picks.

Each works as a scheduler's step does, and may fall asleep between any two parts of it. Whatever happens, no GPU belongs
to two gangs, no gang is split, each bind is told once, and once the trouble is over the work gets done.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.committer import commit
from scheduler.core.types import HOLDING, Change, EventKind, Phase, Plan
from scheduler.store import keys
from scheduler.store.base import (
    Batch,
    Committed,
    Compare,
    LeaseGone,
    Operation,
    Put,
    StoreUnavailable,
    Transaction,
    Watch,
)
from scheduler.store.memory import MemoryStore
from tests.scheduler.store.seam import VirtualClock
from tests.scheduler.world import TTL_S, World, assert_sound, bind, release

GPUS = {"a": 8, "b": 8, "c": 16, "d": 24, "e": 32, "f": 8}


class Wire(MemoryStore):
    """Commits may be lost, done without an answer, or kept on the way until ``deliver_one()``."""

    def __init__(self, clock: VirtualClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.chance = chance
        self.trouble = 0.0
        self.on_the_way: list[Transaction] = []

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        if self.chance.random() >= self.trouble:
            return super().commit(compares, operations)
        match self.chance.randrange(3):
            case 0:
                super().commit(compares, operations)
            case 1:
                self.on_the_way.append((compares, operations))
        raise StoreUnavailable("no answer")

    def deliver_one(self) -> None:
        if not self.on_the_way:
            return
        with suppress(LeaseGone):  # an election that came too late
            super().commit(*self.on_the_way.pop(self.chance.randrange(len(self.on_the_way))))

    def watch(self, prefix: str, from_revision: int) -> LateWatch:  # type: ignore[override]
        return LateWatch(super().watch(prefix, from_revision), self)

    def people_change_their_mind(self) -> None:
        """A job's wish is put again: what was planned on the old one is stale."""
        entry = self.get(keys.intent_job(self.chance.choice(list(GPUS))))
        assert entry is not None
        super().commit([], [Put(entry.key, entry.value)])


class LateWatch:
    """Brings nothing, at times, to those who do not wait for it."""

    def __init__(self, watch: Watch, wire: Wire) -> None:
        self._watch = watch
        self._wire = wire

    def next(self, timeout_s: float) -> Batch | None:
        late = timeout_s == 0 and self._wire.chance.random() < 2 * self._wire.trouble
        return None if late else self._watch.next(timeout_s)

    def close(self) -> None:
        self._watch.close()


class Worker:
    """One scheduler process; each ``next()`` on its ``life`` goes on to where it may fall asleep."""

    def __init__(self, world: World, name: str, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._leader = world.leader(name)
        self._loader = world.loader()
        self.life = self._live()

    def _live(self) -> Iterator[None]:
        while True:
            yield
            try:
                yield from self._step()
            except StoreUnavailable:
                self._loader.drop()

    def _step(self) -> Iterator[None]:
        token = self._leader.hold()
        yield
        if token is None:
            self._loader.drop()
            return
        self._loader.catch_up(through=token)
        yield
        plan = Plan(tuple(self._decide(token)))
        yield
        result = commit(self._world.store, self._loader, plan, token, self._world.new_id)
        yield
        if result.halted:
            self._leader.resign()
            self._loader.drop()

    def _decide(self, token: int) -> Iterator[Change]:
        """Free some gangs, then bind in the order of chance what fits on what is free by then."""
        snapshot = self._loader.snapshot
        free = [name for name, node in snapshot.nodes.items() if node.free_gpus == 8]
        for job in snapshot.jobs.values():
            if job.phase in HOLDING and self._chance.random() < 0.3:
                free += [part.node for part in job.decision.allocation]
                yield release(job.id, job.decision.attempt)
        waiting = [job for job in snapshot.jobs.values() if job.phase is Phase.PENDING]
        for job in self._chance.sample(waiting, len(waiting)):
            need = job.spec.gpus // 8
            if need <= len(free):
                yield bind(job.id, *free[:need], fence=token, attempt=job.decision.attempt + 1)
                del free[:need]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_no_gpu_is_given_twice_whatever_is_lost_late_or_asleep(seed: int) -> None:
    chance, clock = random.Random(seed), VirtualClock()
    wire = Wire(clock, chance)
    world = World(wire, nodes=5, clock=clock)
    for job, gpus in GPUS.items():
        world.wish(job, gpus)
    workers = [Worker(world, name, chance) for name in ("one", "two", "three")]
    wire.trouble = 0.25
    for _ in range(120):
        next(chance.choice(workers).life)
        if chance.random() < 0.2:
            wire.deliver_one()
        if chance.random() < 0.2:
            wire.people_change_their_mind()
        if chance.random() < 0.2:
            clock.sleep(chance.choice([1, TTL_S / 2, TTL_S + 1]))
        assert_sound(world.decisions(), GPUS)
    _the_work_gets_done(world, wire, workers[0])


def _the_work_gets_done(world: World, wire: Wire, worker: Worker) -> None:
    wire.trouble = 0.0
    world.clock.sleep(2 * TTL_S)
    before = wire.read("/").revision
    for _ in range(30):
        next(worker.life)
        wire.deliver_one()
        assert_sound(world.decisions(), GPUS)
    assert wire.read("/").revision > before
    assert any(decision.phase in HOLDING for decision in world.decisions().values())
    told = [(event.job, event.attempt) for event in world.events() if event.kind is EventKind.BIND]
    assert len(told) == len(set(told)), "each bind is told once"
