"""What is known of jobs that ran: how long each held its GPUs, and sums over its likes at any moment.

Times are seconds as floats; lengths are worked with as logarithms, for run times span from seconds to weeks. Pure.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log1p
from statistics import median

from scheduler.core.types import JobSpec

SIZES: tuple[tuple[str, int], ...] = (("1", 1), ("2-8", 8), ("9-64", 64), ("65+", 10**9))
"""Name of a size class, and the most GPUs of a gang in it."""
KEPT = 15
"""Of how many of its newest likes a job's past is told."""
_CHANGING = re.compile(r"[0-9a-f]{7,}|\d+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is known of a job when it is submitted; ``submitted_s`` since the epoch."""

    job: str
    team: str
    owner: str
    family: str
    image: str
    gpus: int
    gpu_type: str
    priority: int
    limit_s: float
    submitted_s: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that ran for ``length_s`` in all and ended at ``ended_s``; with ``ended_s`` None it is running still."""

    wanted: Wanted
    length_s: float
    ended_s: float | None


def wanted_of(spec: JobSpec) -> Wanted:
    return Wanted(
        job=spec.id,
        team=spec.team,
        owner=spec.owner.casefold() or spec.team,
        family=family(spec.name),
        image=spec.launch.image,
        gpus=spec.gpus,
        gpu_type=spec.gpu_type,
        priority=spec.priority,
        limit_s=spec.max_runtime_ms / 1000,
        submitted_s=spec.submitted_ms / 1000,
    )


def family(name: str) -> str:
    """What names of one kind of job have in common: without numbers and hashes."""
    return _CHANGING.sub("#", name.lower())


def size_class(gpus: int) -> str:
    return next(name for name, most in SIZES if gpus <= most)


class Likes:
    """The newest of the jobs that are alike in one way."""

    __slots__ = ("count", "lengths")

    def __init__(self) -> None:
        self.count = 0
        self.lengths: deque[float] = deque(maxlen=KEPT)

    def add(self, length_s: float) -> None:
        self.count += 1
        self.lengths.append(log1p(length_s))

    def told(self) -> tuple[float, float, float, float]:
        """Logarithms of the last and the median length, of the longest, and of how many there were."""
        return self.lengths[-1], median(self.lengths), max(self.lengths), log1p(self.count)


_NONE = (float("nan"), float("nan"), float("nan"), 0.0)


def _ways(wanted: Wanted) -> tuple[tuple[object, ...], ...]:
    """In which ways others may be like this one."""
    return (
        ("owner", wanted.owner),
        ("team", wanted.team),
        ("family", wanted.owner, wanted.family),
        ("size", wanted.owner, wanted.gpus),
        ("team and size", wanted.team, wanted.gpus),
    )


class Past:
    """The jobs that ended by some moment, as far as later ones are judged by them."""

    def __init__(self) -> None:
        self._likes: dict[tuple[object, ...], Likes] = {}

    def add(self, ran: Ran) -> None:
        for way in _ways(ran.wanted):
            likes = self._likes.get(way)
            if likes is None:
                likes = self._likes[way] = Likes()
            likes.add(ran.length_s)

    def told(self, wanted: Wanted) -> Iterator[float]:
        """What its likes tell of a job, the same number of figures for any."""
        for way in _ways(wanted):
            likes = self._likes.get(way)
            yield from likes.told() if likes is not None else _NONE


def told_at_submission(ran: Iterable[Ran]) -> Iterator[tuple[Ran, Past]]:
    """Each job with the past as it was when the job was submitted. The past is one object that goes on changing."""
    past = Past()
    ended = sorted((one for one in ran if one.ended_s is not None), key=lambda one: one.ended_s or 0.0)
    at = 0
    for one in sorted(ran, key=lambda one: one.wanted.submitted_s):
        while at < len(ended) and (ended[at].ended_s or 0.0) <= one.wanted.submitted_s:
            past.add(ended[at])
            at += 1
        yield one, past
