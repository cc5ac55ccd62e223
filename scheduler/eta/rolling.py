"""The real plan rolled forward over run times that were drawn, with jobs coming in as they did before. Pure.

One roll is one possible future. Decisions are made as the leader makes them, by limits, for it cannot know better; jobs
end when their drawn time is over. Several rolls tell how early and how late a start may be.

Jobs of one owner, size and limit share most of their luck: of two hundred that somebody submits at once either all fail
after seconds or all run for hours, and what waits behind them is not helped by the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from zlib import crc32

from scheduler.core.attempts import DAY_MS
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.rollout import Rollout
from scheduler.core.scratch import Records, Scratch
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobIntent, Phase, Plan, Policy
from scheduler.eta.arrivals import Coming
from scheduler.eta.quantiles import Length

HORIZON_MS = 7 * DAY_MS
NEWCOMERS_MS = DAY_MS
"""Jobs are expected to come for so long; what comes later seldom starts before those that wait now."""
FINEST_MS = 60_000
COARSE, FINE = 12, 120
"""What is due within so small a part of the time looked ahead is taken to happen together, at the end of that; on a
cluster of few jobs plans cost little, so that it can be a smaller one."""
FEW = 600
STEPS = 800
SHARED = 0.8
"""How much of their luck jobs of one kind share: the correlation of their quantiles' normal scores."""
_NORMAL = NormalDist()
ROLLS = 3
"""At most in one refresh."""


@dataclass(frozen=True, slots=True)
class Rolls:
    """By waiting job the starts in the rolls, in ms; a roll in which it did not start has none. ``until_ms`` is how far
    the shortest roll went."""

    made_ms: int
    until_ms: int
    count: int
    starts: Mapping[str, tuple[int, ...]]


class Roll(Rollout):
    """One future. ``lengths`` are of the jobs that are there; ``coming`` brings its own."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        now_ms: int,
        lengths: Mapping[str, Length],
        coming: Sequence[Coming],
        random: Random,
        stratum: tuple[int, int] = (0, 1),
    ) -> None:
        self._lengths = lengths
        self._random = random
        self._stratum = stratum
        self._luck: dict[tuple[object, ...], float] = {}
        self._drawn: dict[str, float] = {}
        self._coming = list(reversed(coming))
        super().__init__(snapshot, policy, now_ms, FINEST_MS, FINE if len(snapshot.jobs) <= FEW else COARSE)

    def ends_ms(self, job: Job) -> int:
        latest = planned_end_ms(job.spec, job.decision)
        drawn = self._drawn.get(job.id)
        if drawn is None:
            drawn = self._drawn[job.id] = self._draw(job, latest)
        return min(latest, latest - job.spec.max_runtime_ms + round(drawn * 1000))

    def _draw(self, job: Job, latest_ms: int) -> float:
        """Its length in all, knowing what it has worked already."""
        length = self._lengths.get(job.id)
        if length is None:
            return job.spec.max_runtime_ms / 1000
        worked_ms = self._now_ms - (latest_ms - job.spec.max_runtime_ms)
        drawn = length.given(max(0, worked_ms) / 1000, self._level(job))
        if job.decision.started_ms == self._now_ms > self._begun_ms:
            # What a plan starts might have begun at any moment since the plan before: half of that it has behind it.
            drawn = max(1.0, drawn - self._apart_ms() / 2000)
        return drawn

    def _level(self, job: Job) -> float:
        """The quantile of its length: mostly that of its kind, a little its own.

        The luck of a kind is stratified over the rolls: of four, one draws it from each quarter.
        """
        spec = job.spec
        kind = (spec.team, spec.owner, spec.gpus, spec.max_runtime_ms)
        luck = self._luck.get(kind)
        if luck is None:
            number, count = self._stratum
            place = (crc32(repr(kind).encode()) + number) % count
            share = (place + self._random.random()) / count
            luck = self._luck[kind] = _NORMAL.inv_cdf(min(max(share, 1e-6), 1 - 1e-6))
        return _NORMAL.cdf(luck * SHARED**0.5 + self._random.gauss(0.0, 1.0) * (1 - SHARED) ** 0.5)

    def _next(self, made: Plan) -> int | None:
        after = super()._next(made)
        if not self._coming:
            return after
        comes = max(self._coming[-1].spec.submitted_ms, self._now_ms + self._apart_ms())
        return comes if after is None else min(after, comes)

    def _pass_time(self) -> None:
        super()._pass_time()
        while self._coming and self._coming[-1].spec.submitted_ms <= self._now_ms:
            one = self._coming.pop()
            self._drawn[one.spec.id] = one.length_s
            self._snapshot.tell_time(self._now_ms)
            self._snapshot.set_job_intent(one.spec.id, JobIntent(one.spec))


def roll(
    seen: Records,
    policy: Policy,
    lengths: Mapping[str, Length],
    coming: Callable[[Random, int, int], Sequence[Coming]],
    *,
    rolls: int,
    seed: int,
    horizon_ms: int = HORIZON_MS,
    go_on: Callable[[], bool] = lambda: True,
    asked: frozenset[str] | None = None,
) -> Rolls:
    """Roll forward up to ``rolls`` times, the first one in any case.

    Args:
        lengths: of the jobs in ``seen``, running and waiting; one without runs to its limit.
        coming: what comes between two moments, in order of time, by chance.
        go_on: asked before each further roll.
        asked: a roll may end when these have started; None: all that wait.
    """
    waiting = frozenset(name for name, (_, decision) in seen.jobs.items() if decision.phase is Phase.PENDING)
    awaited = waiting if asked is None else asked & waiting
    found: dict[str, list[int]] = {name: [] for name in waiting}
    until_ms, done = seen.now_ms + horizon_ms, 0
    for number in range(rolls):
        if done and not go_on():
            break
        random = Random(seed * 1000 + number)
        newcomers = coming(random, seen.now_ms, seen.now_ms + min(horizon_ms, NEWCOMERS_MS))
        way = Roll(Scratch().follow(seen), policy, seen.now_ms, lengths, newcomers, random, (number, rolls))
        starts = way.course.starts
        way.run(seen.now_ms + horizon_ms, STEPS, lambda starts=starts: awaited <= starts.keys())  # type: ignore[misc]
        until_ms = min(until_ms, max(seen.now_ms, way.course.until_ms))
        done += 1
        for name, at in starts.items():
            if name in found:
                found[name].append(at)
    return Rolls(seen.now_ms, until_ms, done, {name: tuple(sorted(starts)) for name, starts in found.items()})
