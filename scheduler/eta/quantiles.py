"""Distributions of run times told by a few quantiles: drawing from them, also of what is left after a while. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, log1p

import numpy as np

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""What is learned of a distribution. Below the first it goes straight down to 0, above the last up to the limit."""
_GRID = (0.0, *LEVELS, 1.0)


class Length:
    """How long a job runs, in seconds: ``quantiles`` at ``LEVELS``, and never longer than ``limit_s``."""

    __slots__ = ("_logs", "limit_s")

    def __init__(self, quantiles: Sequence[float], limit_s: float) -> None:
        self.limit_s = limit_s
        most = log1p(min(limit_s, 1e12))
        inner = [min(log1p(max(0.0, one)), most) for one in sorted(quantiles)]
        self._logs = (0.0, *inner, most)

    def at(self, level: float) -> float:
        return expm1(float(np.interp(level, _GRID, self._logs)))

    def share_over_by(self, length_s: float) -> float:
        """The probability that it is over by then."""
        logs, at = self._logs, log1p(max(0.0, length_s))
        if at >= logs[-1]:
            return 1.0
        for low in range(len(logs) - 2, -1, -1):
            if logs[low] <= at:
                span = logs[low + 1] - logs[low]
                part = (at - logs[low]) / span if span > 0 else 1.0
                return _GRID[low] + part * (_GRID[low + 1] - _GRID[low])
        return 0.0

    def given(self, ran_s: float, level: float) -> float:
        """The whole length at ``level`` of those that run longer than ``ran_s``, P(T | T > t); at most the limit."""
        gone = self.share_over_by(ran_s)
        return min(max(self.at(gone + (1 - gone) * level), ran_s), max(self.limit_s, ran_s))


def weighted_quantile(values: Sequence[float], level: float) -> float:
    """The empirical quantile, that of a value that is there (the next above)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, int(np.ceil(level * len(ranked))) - 1))]
