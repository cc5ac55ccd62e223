"""Run times where no model is in service: from the job's owner, else its team, else its size, else its limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.eta.past import Past, Ran, Wanted, size_class
from scheduler.eta.quantiles import LEVELS, Length, weighted_quantile

ENOUGH = 8
"""Jobs of a kind that have to have ended before one is judged by them."""
NEWEST = 200


class Ladder:
    """The rungs, from the narrowest kind that is known to the limit."""

    def __init__(self, ran: Iterable[Ran]) -> None:
        self._lengths: dict[tuple[str, str, str], list[float]] = {}
        for one in sorted((one for one in ran if one.ended_s is not None), key=lambda one: one.ended_s or 0.0):
            for rung in _rungs(one.wanted):
                self._lengths.setdefault(rung, []).append(one.length_s)
        self._told = {
            rung: [weighted_quantile(lengths[-NEWEST:], level) for level in LEVELS]
            for rung, lengths in self._lengths.items()
            if len(lengths) >= ENOUGH
        }

    def basis(self, wanted: Wanted) -> str:
        """The name of the rung that a job stands on."""
        return next((rung[0] for rung in _rungs(wanted) if rung in self._told), "limit")

    def lengths(self, wanted: Sequence[Wanted], past: Past) -> list[Length]:
        """As the model's. ``past`` is not looked at: the rungs hold it."""
        return [self._length(one) for one in wanted]

    def _length(self, wanted: Wanted) -> Length:
        for rung in _rungs(wanted):
            told = self._told.get(rung)
            if told is not None:
                return Length(told, wanted.limit_s)
        return Length([wanted.limit_s] * len(LEVELS), wanted.limit_s)


def _rungs(wanted: Wanted) -> tuple[tuple[str, str, str], ...]:
    size = size_class(wanted.gpus)
    return ("owner", wanted.owner, size), ("team", wanted.team, size), ("size", "", size)
