"""What is expected to come: hours of the past of the same hour of the week, played again. Pure.

So sizes, teams, priorities and lengths come in the mix and in the bursts in which they come at that hour; nothing is
assumed about how they are distributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from scheduler.core.types import JobSpec

HOUR_MS = 3_600_000
DAY, WEEK = 24, 168
NEWCOMER = "~"
"""What the ids of jobs begin with that are only expected to come. No id of a job does."""
SMALL = 0.04
"""The smallest jobs that all together hold this share of the GPU time are not played: they are most of those that come,
find a place nearly always, and each costs a plan."""
WEEKS = 4
"""How far back is looked for an hour like the one to come."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A job that comes at ``spec.submitted_ms`` and will run for ``length_s``, or to its limit."""

    spec: JobSpec
    length_s: float


class Arrivals:
    """The jobs that came, by the hour. ``until_ms`` is up to when all are known."""

    def __init__(self, came: Sequence[Coming], until_ms: int) -> None:
        self._hours: dict[int, list[Coming]] = {}
        for one in sorted(_large(came), key=lambda one: one.spec.submitted_ms):
            self._hours.setdefault(one.spec.submitted_ms // HOUR_MS, []).append(one)
        self._first = min(self._hours, default=0)
        self._until = until_ms // HOUR_MS
        """The hour that is not over yet: it and later ones are not played."""

    def __call__(self, random: Random, from_ms: int, to_ms: int) -> list[Coming]:
        """What comes in between, in order of time."""
        answer: list[Coming] = []
        for hour in range(from_ms // HOUR_MS, -(-to_ms // HOUR_MS)):
            like = self._like(hour, random)
            if like is None:
                continue
            for one in self._hours.get(like, ()):
                at_ms = one.spec.submitted_ms + (hour - like) * HOUR_MS
                if from_ms < at_ms <= to_ms:
                    answer.append(_renamed(one, len(answer), at_ms))
        return sorted(answer, key=lambda one: one.spec.submitted_ms)

    def _like(self, hour: int, random: Random) -> int | None:
        """An hour of the past like this one: of the same hour of the week, else of the day, else any."""
        for apart, back in ((WEEK, WEEKS), (DAY, 7), (1, DAY)):
            behind = -(-(hour - self._until + 1) // apart)
            hours = [hour - apart * n for n in range(max(1, behind), max(1, behind) + back)]
            known = [one for one in hours if self._first <= one < self._until]
            if known:
                return random.choice(known)
        return None


def _large(came: Sequence[Coming]) -> list[Coming]:
    ranked = sorted(came, key=lambda one: one.spec.gpus * one.length_s)
    left = SMALL * sum(one.spec.gpus * one.length_s for one in came)
    for at, one in enumerate(ranked):
        left -= one.spec.gpus * one.length_s
        if left < 0:
            return ranked[at:]
    return []


def _renamed(one: Coming, number: int, at_ms: int) -> Coming:
    name = f"{NEWCOMER}{number}"
    spec = replace(one.spec, id=name, submitted_ms=at_ms, after=(), array="", throttle=0, name="")
    return Coming(spec, one.length_s)
