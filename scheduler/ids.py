"""ULIDs: ids that sort by the moment they were made. Clock and randomness are handed in."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_TIME_BITS = 48
_LENGTH = 26


def ulid(at_ms: int, random_bits: int) -> str:
    """The ULID of a moment (48 bits of milliseconds) and 80 random bits, in Crockford's base 32.

    Raises:
        ValueError: either does not fit its bits.
    """
    if not 0 <= at_ms < 1 << _TIME_BITS:
        raise ValueError(f"{at_ms} ms is outside of what a ULID can tell")
    if not 0 <= random_bits < 1 << _RANDOM_BITS:
        raise ValueError("a ULID takes 80 random bits")
    number = at_ms << _RANDOM_BITS | random_bits
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))


class Ulids:
    """Makes ULIDs that rise strictly: within a millisecond, and when the clock steps back, the last one plus one.

    ``random_bits(n)`` answers n random bits as an integer, as ``random.Random.getrandbits`` does. Safe in threads.
    """

    def __init__(self, now_ms: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._now_ms = now_ms
        self._random_bits = random_bits
        self._lock = Lock()
        self._last = -1

    def __call__(self) -> str:
        with self._lock:
            fresh = self._now_ms() << _RANDOM_BITS | self._random_bits(_RANDOM_BITS)
            self._last = max(fresh, self._last + 1)
            return ulid(self._last >> _RANDOM_BITS, self._last & (1 << _RANDOM_BITS) - 1)
