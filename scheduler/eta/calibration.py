"""What rolls tell, set right by how earlier rolls turned out: conformal, on the logarithm of the wait. Pure.

Of each earlier prediction it is known by which factor the job waited longer (or shorter) than was told; of one that
waits still, by which factor at least. The quantiles of these factors (Kaplan and Meier 1958: those that wait still are
counted as what they are, not left out) move P50 and P90. They are told by how far away the start was said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

LEAST, HOURS = 30, 8
"""So many predictions of a kind have to be over, made in so many different hours, before it is set right by itself:
those of one hour share their luck."""
GRACE_S = 60.0
"""A minute more or less is no error: it is added on both sides before the factor is taken."""
TAKEN = 0.5
"""How much of the correction of P50 is made, of its logarithm: what was is not all that will be. P90 is not spared any:
the latest of what its kind and the wider ones say, and never before the middle of the rolls."""
BOUNDS_S = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 36 * 3600.0)
NOT_YET_S = 1.5
"""A job that starts in none of the rolls is taken to wait so many times the time looked ahead."""


@dataclass(frozen=True, slots=True)
class Told:
    """A prediction made at ``at_s``: the wait from then on that the rolls told, in their middle, for so many GPUs."""

    at_s: float
    wait_s: float
    gpus: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of it: the wait from then on; ``over`` false: it has waited so long and waits still."""

    told: Told
    waited_s: float
    over: bool


@dataclass(frozen=True, slots=True)
class Corrected:
    """The quantiles of a wait, in seconds. ``scored`` is by how many earlier ones they were set right."""

    p50_s: float
    p90_s: float
    scored: int


def kind(told: Told) -> tuple[str, int]:
    far = sum(told.wait_s > bound for bound in BOUNDS_S)
    return ("gang" if told.gpus > 8 else "host"), far


class Calibration:
    def __init__(self, scored: Iterable[Scored]) -> None:
        by_kind: dict[object, list[tuple[float, bool]]] = {}
        hours: dict[object, set[int]] = {}
        for one in scored:
            factor = log((one.waited_s + GRACE_S) / (one.told.wait_s + GRACE_S))
            size, far = kind(one.told)
            for name in ((size, far), far, None):
                by_kind.setdefault(name, []).append((factor, one.over))
                hours.setdefault(name, set()).add(int(one.told.at_s // 3600))
        self._factors = {
            name: (len(all_), survival_quantile(all_, 0.5), survival_quantile(all_, 0.9))
            for name, all_ in by_kind.items()
            if sum(over for _, over in all_) >= LEAST and len(hours[name]) >= HOURS
        }

    def correct(self, told: Told, spread: float = 1.0) -> Corrected:
        """``spread`` is how many times later than the middle one of the rolls said, told where nothing is scored."""
        size, far = kind(told)
        known = [self._factors[name] for name in ((size, far), far, None) if name in self._factors]
        if not known:
            return Corrected(told.wait_s, max(told.wait_s * spread, told.wait_s), 0)
        count, middle, _ = known[0]
        p50 = max(0.0, self._times(told, TAKEN * middle))
        return Corrected(p50, max(p50, told.wait_s, *(self._times(told, late) for _, _, late in known)), count)

    @staticmethod
    def _times(told: Told, factor: float) -> float:
        return (told.wait_s + GRACE_S) * exp(factor) - GRACE_S


def survival_quantile(values: Sequence[tuple[float, bool]], level: float) -> float:
    """The quantile of values of which some are only known to be larger than they are told (``False``).

    Where too many are, it is the largest that is told at all.
    """
    ranked = sorted(values, key=lambda one: (one[0], not one[1]))
    left, alive = len(ranked), 1.0
    for value, over in ranked:
        if over:
            alive *= 1 - 1 / left
            if alive <= 1 - level + 1e-12:
                return value
        left -= 1
    return ranked[-1][0]
