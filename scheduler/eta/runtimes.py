"""The model of run times: quantiles by gradient boosting, moved by split conformal calibration.

The oldest part of what is known is learned from. On the newest part each quantile is then moved until as many jobs lie
below it as it says. What is running still is not left out, for that would forget the long ones: its length is drawn
from those that ran longer than it has until now.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log1p
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.eta.features import Codes, Matrix, matrix, row
from scheduler.eta.past import Past, Ran, Wanted, size_class, told_at_submission
from scheduler.eta.quantiles import LEVELS, Length

LEAST = 200
"""Jobs that have to have ended before anything is learned from them."""
MOST = 100_000
"""The newest that are learned from."""
CALIBRATED_ON = 0.2
ROUNDS = 80
_FEW = 5
_PARAMETERS = {
    "objective": "quantile",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.8,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 7,
    "deterministic": True,
}


class TooFew(Exception):
    """There is too little to learn from."""


class CannotLearn(Exception):
    """The library that learns cannot be loaded here. The message is one line."""


def _library() -> Any:
    """LightGBM, at its first use: it and what it needs take 100 MB. It needs the system's OpenMP (libgomp1)."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise CannotLearn(f"LightGBM cannot be loaded (Debian's libgomp1 has to be there): {error}") from error
    return lightgbm


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A trained model. ``boosters`` run parallel to ``LEVELS``, ``moved`` by how much each quantile's logarithm was."""

    codes: Codes
    boosters: tuple[Any, ...]
    moved: tuple[float, ...]
    jobs: int
    until_s: float
    with_limit: bool = True

    def lengths(self, wanted: Sequence[Wanted], past: Past) -> list[Length]:
        return self.of_rows([self.row(one, past) for one in wanted], [one.limit_s for one in wanted])

    def row(self, wanted: Wanted, past: Past) -> list[float]:
        return row(wanted, past, self.codes, self.with_limit)

    def of_rows(self, rows: Sequence[Sequence[float]], limits_s: Sequence[float]) -> list[Length]:
        """The lengths of many at once: asking one by one costs a hundred times as much."""
        if not rows:
            return []
        return [
            Length([float(value) for value in np.expm1(np.clip(logs, 0, 25))], limit_s)
            for limit_s, logs in zip(limits_s, self.quantiles(matrix(rows)), strict=True)
        ]

    def quantiles(self, rows: Matrix) -> NDArray[np.float64]:
        """Logarithms, one row a job and one column a level, ascending."""
        columns = [
            booster.predict(rows, num_threads=1) + by for booster, by in zip(self.boosters, self.moved, strict=True)
        ]
        return np.sort(np.stack(columns, axis=1), axis=1)

    def dumped(self) -> bytes:
        """As text: whoever reads it back runs nothing of it."""
        document = {
            "levels": LEVELS,
            "names": self.codes.names,
            "boosters": [booster.model_to_string() for booster in self.boosters],
            "moved": self.moved,
            "jobs": self.jobs,
            "until_s": self.until_s,
            "with_limit": self.with_limit,
        }
        return json.dumps(document).encode()


def loaded(raw: bytes) -> RunTimes:
    """
    Raises:
        ValueError: it is no model, or one of another version of this code.
        CannotLearn: the library is not there.
    """
    library = _library()
    try:
        document = json.loads(raw)
        if tuple(document["levels"]) != LEVELS:
            raise ValueError("its quantiles are others")
        boosters = tuple(library.Booster(model_str=text) for text in document["boosters"])
        model = RunTimes(
            Codes(document["names"]),
            boosters,
            tuple(document["moved"]),
            document["jobs"],
            document["until_s"],
            document["with_limit"],
        )
        width = len(row(Wanted("", "", "", "", "", 1, "", 2, 1.0, 0.0), Past(), model.codes))
        if any(booster.num_feature() != width for booster in boosters):
            raise ValueError("its features are others")
        return model
    except (KeyError, TypeError, library.basic.LightGBMError) as error:
        raise ValueError(f"no model of run times: {error}") from error


def train(ran: Sequence[Ran], *, with_limit: bool = True, rounds: int = ROUNDS) -> RunTimes:
    """
    Raises:
        TooFew: fewer than ``LEAST`` jobs have ended.
        CannotLearn: the library is not there.
    """
    known = sorted(ran, key=lambda one: one.wanted.submitted_s)[-MOST:]
    ended = sum(one.ended_s is not None for one in known)
    if ended < LEAST:
        raise TooFew(f"{ended} jobs have ended, and nothing is learned from fewer than {LEAST}")
    library = _library()
    codes = Codes(sorted({name for one in known for name in _names(one.wanted)}))
    rows = matrix([row(one.wanted, past, codes, with_limit) for one, past in told_at_submission(known)])
    lengths = np.log1p(np.asarray(drawn_to_the_end(known)))
    old = len(known) - ceil(CALIBRATED_ON * len(known))
    data = library.Dataset(rows[:old], lengths[:old], free_raw_data=False)
    boosters = tuple(library.train({**_PARAMETERS, "alpha": level}, data, rounds) for level in LEVELS)
    moved = tuple(
        conformal(lengths[old:] - booster.predict(rows[old:], num_threads=1), level)
        for booster, level in zip(boosters, LEVELS, strict=True)
    )
    until_s = max(one.ended_s or 0.0 for one in known)
    return RunTimes(codes, boosters, moved, len(known), until_s, with_limit)


def conformal(misses: NDArray[np.float64], level: float) -> float:
    """By how much a quantile has to be moved so that, of jobs like these, at least ``level`` lie below it.

    Split conformal: the ceil((n + 1) level)-th of n misses (Romano, Patterson, Candès 2019).
    """
    ranked = np.sort(misses)
    return float(ranked[min(len(ranked), ceil((len(ranked) + 1) * level)) - 1])


def drawn_to_the_end(known: Sequence[Ran], seed: int = 7) -> list[float]:
    """The length of each; of one that runs still one out of those of its size that ran longer than it has."""
    random = Random(seed)
    by_size: dict[str, list[float]] = {}
    for one in known:
        if one.ended_s is not None:
            by_size.setdefault(size_class(one.wanted.gpus), []).append(one.length_s)
    answer = []
    for one in known:
        if one.ended_s is not None:
            answer.append(one.length_s)
            continue
        longer = [length for length in by_size.get(size_class(one.wanted.gpus), ()) if length > one.length_s]
        drawn = random.choice(longer) if len(longer) >= _FEW else 2 * one.length_s
        answer.append(max(one.length_s, min(drawn, one.wanted.limit_s)))
    return answer


def pinball(actual_s: Sequence[float], told_s: Sequence[float], level: float) -> float:
    """The mean loss of a quantile, in seconds: it is least for the true one."""
    miss = np.asarray(actual_s) - np.asarray(told_s)
    return float(np.mean(np.maximum(level * miss, (level - 1) * miss)))


def log_pinball(actual_s: Sequence[float], told_s: Sequence[float], level: float) -> float:
    """The same of logarithms: by which factor it is off, so that a job of minutes counts like one of days."""
    return pinball([log1p(one) for one in actual_s], [log1p(one) for one in told_s], level)


def _names(wanted: Wanted) -> tuple[str, ...]:
    return wanted.gpu_type, wanted.team, wanted.owner, wanted.image
