"""From the records of the cluster to when each waiting job starts: lengths, rolls, and what they come to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Protocol

from scheduler.core.scratch import Records
from scheduler.core.types import Phase
from scheduler.eta.arrivals import Coming
from scheduler.eta.calibration import NOT_YET_S, Calibration, Told
from scheduler.eta.past import Past, Wanted, wanted_of
from scheduler.eta.quantiles import Length
from scheduler.eta.rolling import Rolls

Newcomers = Callable[[Random, int, int], Sequence[Coming]]


class Lengths(Protocol):
    """Who tells how long jobs run: the model, or the ladder."""

    def lengths(self, wanted: Sequence[Wanted], past: Past) -> list[Length]: ...


@dataclass(frozen=True, slots=True)
class Foretold:
    """When a job starts, in ms: as likely before ``p50_ms`` as after, and by ``p90_ms`` nine times in ten.

    ``raw_s`` is the wait that the rolls told, before it was set right by ``scored`` earlier predictions. ``within``:
    whether the start lies within the time that was looked ahead.
    """

    p50_ms: int
    p90_ms: int
    raw_s: float
    scored: int
    within: bool


def lengths_of(seen: Records, teller: Lengths, past: Past) -> dict[str, Length]:
    """By job, of all that are there."""
    wanted = [wanted_of(intent.spec) for intent, _ in seen.jobs.values()]
    return dict(zip(seen.jobs, teller.lengths(wanted, past), strict=True))


def pooled(rolls: Sequence[Rolls]) -> dict[str, list[int | None]]:
    """By waiting job its start in each roll of several refreshes; None where it did not start."""
    answer: dict[str, list[int | None]] = {}
    for one in rolls:
        for job, starts in one.starts.items():
            answer.setdefault(job, []).extend([*starts, *[None] * (one.count - len(starts))])
    return answer


def foretell(
    now_ms: int, horizon_ms: int, starts: Mapping[str, Sequence[int | None]], gpus: Mapping[str, int], by: Calibration
) -> dict[str, Foretold]:
    """What the rolls come to, for each job that is in them and in ``gpus``. Never in the past."""
    return {
        job: _one(now_ms, horizon_ms, found, gpus[job], by) for job, found in starts.items() if job in gpus and found
    }


def _one(now_ms: int, horizon_ms: int, found: Sequence[int | None], gpus: int, by: Calibration) -> Foretold:
    beyond_s = NOT_YET_S * horizon_ms / 1000
    waits = sorted(beyond_s if at is None else max(0, at - now_ms) / 1000 for at in found)
    middle = median(waits)
    corrected = by.correct(Told(now_ms / 1000, middle, gpus), waits[-1] / middle if middle else 1.0)
    return Foretold(
        p50_ms=now_ms + round(corrected.p50_s * 1000),
        p90_ms=now_ms + round(corrected.p90_s * 1000),
        raw_s=middle,
        scored=corrected.scored,
        within=middle < beyond_s,
    )


def waiting(seen: Records) -> dict[str, int]:
    """The jobs that wait, with their GPUs."""
    return {name: intent.spec.gpus for name, (intent, decision) in seen.jobs.items() if decision.phase is Phase.PENDING}


def first(names: Iterable[str], most: int) -> frozenset[str]:
    answer: list[str] = []
    for name in names:
        if len(answer) >= most:
            break
        answer.append(name)
    return frozenset(answer)
