"""How well starts and run times of a recorded workload are told, by what was known at each moment alone.

The trace is run through the real scheduler; at moments in between the records of the cluster are taken. Afterwards each
moment is foretold from its records, with a model that was trained on what had ended by then and with earlier
predictions, scored as far as they could be by then. What the plan told by limits, and the mean wait of jobs of a size,
are held beside it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from scheduler.core.forecast import forecast
from scheduler.core.scratch import Records, records
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Phase
from scheduler.eta import foretelling
from scheduler.eta.arrivals import Arrivals, Coming
from scheduler.eta.calibration import Calibration, Scored, Told
from scheduler.eta.ladder import Ladder
from scheduler.eta.past import Past, Ran, size_class, told_at_submission, wanted_of
from scheduler.eta.rolling import HORIZON_MS, roll
from scheduler.eta.runtimes import RunTimes, TooFew, log_pinball, pinball, train
from scheduler.sim.log import Line
from scheduler.sim.simulate import Plan, simulate

DAY_S = 86_400
WAITED_S = 60.0
"""Only jobs that waited longer are told of: the others were started at once, which is no prediction."""
WARM = 0.3
"""The share of the trace from which on predictions are counted; those before it are what the first are scored by."""
LIMITED_STEPS = 200

Progress = Callable[[str, float], None]
"""Called with what is being done and how much of it is, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Of ``jobs`` run times: by which share the loss is below that of the owner's own quantile, in seconds and of
    logarithms, and how many lay below P50 and P90."""

    jobs: int
    p50: float
    p90: float
    log_p50: float
    log_p90: float
    below_p50: float
    below_p90: float


@dataclass(frozen=True, slots=True)
class Errors:
    """Of ``predictions`` of the start of jobs that waited over a minute: the share that started by P90, and the median
    absolute errors in seconds: of P50, of the plan by limits and of the mean wait by size. ``moments`` were looked at;
    ``known`` is the share of which the plan by limits told a start."""

    predictions: int
    moments: int
    covered: float
    p50_s: float
    limits_s: float
    mean_wait_s: float
    p50_where_limits_tell_s: float
    known: float


@dataclass(slots=True)
class Watched:
    """What the simulation left behind: seconds from its start."""

    moments: list[Records] = field(default_factory=list)
    binds: dict[str, list[float]] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        match line["kind"]:
            case "bind":
                self.binds.setdefault(line["job"], []).append(line["t"])
            case "start":
                self.starts.setdefault(line["job"], line["t"])
            case "end":
                self.ends[line["job"]] = line["t"]

    def next_bind(self, job: str, after_s: float) -> float | None:
        binds = self.binds.get(job, [])
        at = bisect_right(binds, after_s)
        return binds[at] if at < len(binds) else None


def watch(plan: Plan, moments: int, progress: Progress) -> Watched:
    """Simulate, and take the records of so many moments, evenly apart, at which somebody waits."""
    seen = Watched()
    every_ms = plan.until_ms // (moments + 1)
    due_ms: int = every_ms

    def look(now_ms: int, snapshot: Snapshot) -> None:
        nonlocal due_ms
        if now_ms >= due_ms and any(job.phase is Phase.PENDING for job in snapshot.jobs.values()):
            seen.moments.append(records(snapshot))
            due_ms = (now_ms // every_ms + 1) * every_ms

    simulate(plan, [seen.take], lambda now_ms, _: progress("simulating", now_ms / plan.until_ms), look)
    return seen


# --- run times --------------------------------------------------------------------------------------------------


def run_times(ran: Sequence[Ran], with_limit: bool, progress: Progress, days: int = 1) -> Losses:
    """Train every ``days`` on what had ended, and tell the jobs of the time until the next training."""
    actual: list[float] = []
    told: list[list[float]] = [[], []]
    own: list[list[float]] = [[], []]
    asked: list[tuple[RunTimes, list[float], float]] = []
    model: RunTimes | None = None
    trained_s, begun = 0.0, ran[0].wanted.submitted_s
    span = max(1.0, ran[-1].wanted.submitted_s - begun)
    owners = _Owners(ran)
    for one, past in told_at_submission(ran):
        now_s = one.wanted.submitted_s
        if now_s - begun >= span * WARM / 2 and (model is None or now_s - trained_s >= days * DAY_S):
            progress("run times", (now_s - begun) / span)
            model, trained_s = _trained(ran, now_s, with_limit) or model, now_s
        known = owners.quantiles(one.wanted.owner, now_s)
        if model is None or known is None:
            continue
        asked.append((model, model.row(one.wanted, past), one.wanted.limit_s if with_limit else float("inf")))
        actual.append(one.length_s)
        for place in (0, 1):
            own[place].append(known[place])
    for version, group in groupby(asked, key=lambda one: one[0]):
        lines = list(group)
        for length in version.of_rows([line[1] for line in lines], [line[2] for line in lines]):
            told[0].append(length.at(0.5))
            told[1].append(length.at(0.9))
    return _losses(actual, told, own)


def _losses(actual: list[float], told: list[list[float]], own: list[list[float]]) -> Losses:
    def below(loss: Callable[..., float], place: int, level: float) -> float:
        return 1 - loss(actual, told[place], level) / max(1e-9, loss(actual, own[place], level))

    if not actual:
        return Losses(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    held = np.asarray(actual)
    return Losses(
        len(actual),
        below(pinball, 0, 0.5),
        below(pinball, 1, 0.9),
        below(log_pinball, 0, 0.5),
        below(log_pinball, 1, 0.9),
        float(np.mean(held <= np.asarray(told[0]))),
        float(np.mean(held <= np.asarray(told[1]))),
    )


class _Owners:
    """The lengths of each owner's jobs that had ended by a moment, which never goes back."""

    def __init__(self, ran: Sequence[Ran]) -> None:
        self._coming = sorted(ran, key=lambda one: -(one.ended_s or 0.0))
        self._own: dict[str, list[float]] = {}
        self._all: list[float] = []

    def quantiles(self, owner: str, now_s: float) -> tuple[float, float] | None:
        """The median and the P90 of the owner's, or of everybody's where the owner has none; None before any."""
        while self._coming and (self._coming[-1].ended_s or 0.0) <= now_s:
            one = self._coming.pop()
            insort(self._own.setdefault(one.wanted.owner, []), one.length_s)
            insort(self._all, one.length_s)
        ranked = self._own.get(owner) or self._all
        return (_ranked(ranked, 0.5), _ranked(ranked, 0.9)) if ranked else None


def _ranked(ranked: Sequence[float], level: float) -> float:
    return ranked[min(len(ranked) - 1, int(level * len(ranked)))]


def _known(ran: Sequence[Ran], now_s: float) -> Iterator[Ran]:
    """What is known of them at a moment: those that have begun, the running ones without their end."""
    for one in ran:
        ended_s = one.ended_s or 0.0
        if ended_s <= now_s:
            yield one
        elif ended_s - one.length_s < now_s:
            yield Ran(one.wanted, now_s - (ended_s - one.length_s), None)


def _trained(ran: Sequence[Ran], now_s: float, with_limit: bool) -> RunTimes | None:
    try:
        return train(list(_known(ran, now_s)), with_limit=with_limit)
    except TooFew:
        return None


# --- starts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Made:
    """One prediction; seconds from the start of the simulation."""

    at_s: float
    job: str
    gpus: int
    submitted_s: float
    raw_s: float
    p50_s: float
    p90_s: float
    limits_s: float | None
    mean_s: float


def starts(plan: Plan, seen: Watched, rolls: int, with_limit: bool, progress: Progress) -> Errors:
    """Foretell every moment, in order, and hold it against what came."""
    ran = _ran(plan, seen)
    made: list[_Made] = []
    teller: foretelling.Lengths = Ladder(())
    trained_s = -float(DAY_S)
    for number, moment in enumerate(seen.moments):
        progress("starts", number / len(seen.moments))
        now_s = moment.now_ms / 1000
        known = list(_known(ran, now_s))
        if now_s - trained_s >= DAY_S:
            teller, trained_s = _trained(ran, now_s, with_limit) or Ladder(known), now_s
        made += _foretell(plan, seen, moment, known, teller, Calibration(_scored(made, seen, now_s)), rolls)
    return _errors(made, seen, WARM * plan.until_ms / 1000)


def _ran(plan: Plan, seen: Watched) -> list[Ran]:
    answer: list[Ran] = []
    for arrival in plan.arrivals:
        started_s = seen.starts.get(arrival.spec.id)
        if started_s is not None:
            length_s = (arrival.behaviour.runtime_ms or 0) / 1000
            ended_s = seen.ends.get(arrival.spec.id, max(started_s + length_s, plan.until_ms / 1000))
            answer.append(Ran(wanted_of(arrival.spec), length_s, ended_s))
    return answer


def _foretell(
    plan: Plan,
    seen: Watched,
    moment: Records,
    known: Sequence[Ran],
    teller: foretelling.Lengths,
    calibration: Calibration,
    rolls: int,
) -> Iterator[_Made]:
    past = Past()
    for one in sorted((one for one in known if one.ended_s is not None), key=lambda one: one.ended_s or 0.0):
        past.add(one)
    lengths = foretelling.lengths_of(moment, teller, past)
    rolled = roll(moment, plan.policy, lengths, _arrivals(plan, known, moment.now_ms), rolls=rolls, seed=moment.now_ms)
    gpus = foretelling.waiting(moment)
    told = foretelling.foretell(moment.now_ms, HORIZON_MS, foretelling.pooled([rolled]), gpus, calibration)
    by_limits = forecast(moment, plan.policy, steps=LIMITED_STEPS).starts
    means = _mean_waits(seen, plan, moment.now_ms / 1000)
    for job, start in told.items():
        submitted_s = moment.jobs[job][0].spec.submitted_ms / 1000
        limits_ms = by_limits.get(job)
        yield _Made(
            at_s=moment.now_ms / 1000,
            job=job,
            gpus=gpus[job],
            submitted_s=submitted_s,
            raw_s=start.raw_s,
            p50_s=start.p50_ms / 1000,
            p90_s=start.p90_ms / 1000,
            limits_s=None if limits_ms is None else limits_ms / 1000,
            mean_s=max(moment.now_ms / 1000, submitted_s + means.get(size_class(gpus[job]), 0.0)),
        )


def _arrivals(plan: Plan, known: Sequence[Ran], now_ms: int) -> Arrivals:
    """What came by then; a job of which the length is not known is taken to run as long as the others of its size."""
    lengths = {one.wanted.job: one.length_s for one in known if one.ended_s is not None}
    by_size: dict[str, list[float]] = {}
    for one in known:
        if one.ended_s is not None:
            by_size.setdefault(size_class(one.wanted.gpus), []).append(one.length_s)
    came: list[Coming] = []
    for arrival in plan.arrivals:
        spec = arrival.spec
        if spec.submitted_ms > now_ms:
            break
        likes = by_size.get(size_class(spec.gpus)) or [spec.max_runtime_ms / 1000]
        length_s = lengths.get(spec.id)
        came.append(Coming(spec, likes[len(came) % len(likes)] if length_s is None else length_s))
    return Arrivals(came, now_ms)


def _mean_waits(seen: Watched, plan: Plan, now_s: float) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for arrival in plan.arrivals:
        at_s = seen.starts.get(arrival.spec.id)
        if at_s is not None and at_s <= now_s:
            waits = sums.setdefault(size_class(arrival.spec.gpus), [])
            waits.append(at_s - arrival.spec.submitted_ms / 1000)
    return {name: sum(waits) / len(waits) for name, waits in sums.items()}


def _scored(made: Sequence[_Made], seen: Watched, now_s: float) -> Iterator[Scored]:
    """What had come of earlier predictions by then."""
    for one in made:
        at_s = seen.next_bind(one.job, one.at_s)
        over = at_s is not None and at_s <= now_s
        waited_s = (at_s if over and at_s is not None else now_s) - one.at_s
        yield Scored(Told(one.at_s, one.raw_s, one.gpus), waited_s, over)


def _errors(made: Sequence[_Made], seen: Watched, from_s: float) -> Errors:
    """Those of which the start is known; one that waits still at the end is outside, unless P90 was before that."""
    counted = []
    for one in made:
        at_s = seen.next_bind(one.job, one.at_s)
        if one.at_s >= from_s and at_s is not None and at_s - one.submitted_s > WAITED_S:
            counted.append((one, at_s))
    if not counted:
        return Errors(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    told = [(one, at_s) for one, at_s in counted if one.limits_s is not None]
    return Errors(
        predictions=len(counted),
        moments=len({one.at_s for one, _ in counted}),
        covered=sum(at_s <= one.p90_s for one, at_s in counted) / len(counted),
        p50_s=float(np.median([abs(at_s - one.p50_s) for one, at_s in counted])),
        limits_s=float(np.median([abs(at_s - (one.limits_s or 0.0)) for one, at_s in told])) if told else 0.0,
        mean_wait_s=float(np.median([abs(at_s - one.mean_s) for one, at_s in counted])),
        p50_where_limits_tell_s=float(np.median([abs(at_s - one.p50_s) for one, at_s in told])) if told else 0.0,
        known=len(told) / len(counted),
    )
