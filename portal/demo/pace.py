"""How fast jobs arrive, so that each GPU type is asked for to about 80 % and no backlog grows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from portal.demo.mix import MEAN_GPUS, MEAN_RUNTIME_S

TARGET = 0.8
MOST_ARRIVALS_PER_S = 1.5
"""Of all types together in the long run: on a larger fleet jobs run longer instead of coming faster."""
CATCH_UP = 6.0
"""How many times faster jobs arrive while nothing runs yet."""


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs of one type: how many there are to be had, are held, and are waited for."""

    total: int
    used: int
    waiting: int

    @property
    def share(self) -> float:
        return (self.used + self.waiting) / self.total if self.total else 1.0


def stretch(total_gpus: int) -> float:
    """By how much run times have to grow, so that no more jobs arrive than ``MOST_ARRIVALS_PER_S``."""
    return max(1.0, TARGET * total_gpus / (MEAN_GPUS * MEAN_RUNTIME_S) / MOST_ARRIVALS_PER_S)


def arrivals_per_s(demand: Demand, stretched: float) -> float:
    """The rate of one type's Poisson arrivals now.

    At the target it is what departures make up for. Below it rises up to ``CATCH_UP`` times, above it falls, and at
    the whole of the fleet it is zero: whatever the fleet does, the backlog is bounded by one job.
    """
    steady = TARGET * demand.total / (MEAN_GPUS * MEAN_RUNTIME_S * stretched)
    gap = (TARGET - demand.share) / TARGET
    if gap >= 0:
        return steady * (1 + (CATCH_UP - 1) * gap)
    return max(0.0, steady * (1 + gap * TARGET / (1 - TARGET)))
