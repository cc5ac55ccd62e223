"""A job as a row of figures for the model of run times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

import numpy as np
from numpy.typing import NDArray

from scheduler.eta.past import Past, Wanted

Matrix = NDArray[np.float64]
DAY_S, WEEK_S = 86_400, 604_800
_EPOCH_WEEKDAY = 3
"""The first of January 1970 was a Thursday."""


class Codes:
    """Names as numbers, as they came in training; a name that did not come is missing."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._codes = {name: float(code) for code, name in enumerate(self.names)}

    def __call__(self, name: str) -> float:
        return self._codes.get(name, float("nan"))


def row(wanted: Wanted, past: Past, codes: Codes, with_limit: bool = True) -> list[float]:
    """``with_limit`` false: the limit is not looked at, for it was not chosen by a person."""
    return [
        log1p(wanted.gpus),
        float(wanted.priority),
        log1p(wanted.limit_s) if with_limit else 0.0,
        codes(wanted.gpu_type),
        codes(wanted.team),
        codes(wanted.owner),
        codes(wanted.image),
        wanted.submitted_s % DAY_S / 3600,
        float((wanted.submitted_s // DAY_S + _EPOCH_WEEKDAY) % 7),
        *past.told(wanted),
    ]


def matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    return np.asarray(rows, dtype=np.float64)
