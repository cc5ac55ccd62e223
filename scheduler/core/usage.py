"""Recent use that fades with a half-life, in exact integers.

``g`` GPUs held from ``b`` to ``e`` count at time ``t`` as ``g * (2**-((t - e)/h) - 2**-((t - b)/h))``: a team that held
them for ever counts ``g``. Written against an origin ``o`` that is ``2**-((t - o)/h) * g * (2**((e - o)/h) - 2**((b -
o)/h))``, so one accumulator a team and type is enough: a bind takes ``g * grown(b)`` off, an end puts ``g * grown(e)``
on, and what still runs adds its present ``g``. Taking a bind back is exact.
"""

from __future__ import annotations

SCALE_BITS = 32
"""Fixed point: a value of 1 is ``1 << SCALE_BITS``."""

_STEPS = 1024
_POWERS: tuple[int, ...] = tuple(round(2.0 ** (SCALE_BITS + i / _STEPS)) for i in range(_STEPS))
"""``2**(i/1024)`` in fixed point."""


def power_of_two(numerator: int, denominator: int) -> int:
    """``2**(numerator/denominator)`` in fixed point, to one part in 1,500; 0 below the smallest step."""
    whole, rest = divmod(numerator, denominator)
    value: int = _POWERS[rest * _STEPS // denominator]
    return value << whole if whole >= 0 else value >> -whole


class Fading:
    """The clock of fading use: an origin and a half-life, both in milliseconds."""

    __slots__ = ("half_life_ms", "origin_ms")

    def __init__(self, half_life_ms: int, origin_ms: int = 0) -> None:
        self.half_life_ms = half_life_ms
        self.origin_ms = origin_ms

    def grown(self, at_ms: int) -> int:
        return power_of_two(at_ms - self.origin_ms, self.half_life_ms)

    def shrink(self, now_ms: int) -> int:
        return power_of_two(self.origin_ms - now_ms, self.half_life_ms)
