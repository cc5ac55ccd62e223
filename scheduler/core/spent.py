"""What repair has cost lately, against its caps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.core.types import Policy, StopCause

if TYPE_CHECKING:
    from scheduler.core.job import Job

RESTART_MS = 60_000
"""What a restart costs beside the work lost: image, rendezvous, reading the checkpoint."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def price_ms(job: Job) -> int:
    """GPU-milliseconds that a move costs: the checkpoint, during which work stands still, and the restart."""
    assert job.spec.checkpoint is not None, f"{job.id} cannot be moved"
    return job.spec.gpus * (job.spec.checkpoint.takes_ms + RESTART_MS)


class Spent:
    """The moves of the last day, as far as the decisions tell: of what has ended or was stopped again since, only who
    has looked before knows."""

    def __init__(self) -> None:
        self._moves: dict[tuple[str, int], int] = {}

    def look(self, jobs: Iterable[Job], now_ms: int) -> None:
        """Take in what was moved since, and forget what is older than a day."""
        for job in jobs:
            stop = job.decision.stop
            if stop is not None and stop.cause is StopCause.REPAIR and job.spec.checkpoint is not None:
                self._moves[job.id, stop.asked_ms] = price_ms(job)
        self._moves = {key: price for key, price in self._moves.items() if key[1] > now_ms - DAY_MS}

    def allows(self, moved: Iterable[Job], policy: Policy, now_ms: int) -> bool:
        """Whether the caps leave room for these moves, too."""
        prices = [price_ms(job) for job in moved]
        lately = sum(1 for _, at in self._moves if at > now_ms - HOUR_MS) + len(prices)
        spent = sum(self._moves.values()) + sum(prices)
        moves, hours = policy.repair_moves_per_hour, policy.repair_gpu_hours_per_day
        return (not moves or lately <= moves) and (not hours or spent <= hours * HOUR_MS)
