"""Short pauses of the garbage collector in a process that keeps a whole cluster in memory.

A full collection looks at every object there is and holds up everything meanwhile: 100 to 300 ms in a web process with
1,250 hosts, often enough to be in the slowest hundredth of all answers. Nearly all of what it looks at stays for as
long as the process does. So whatever outlives a full collection is set aside, and the next one looks at what came
since. Objects set aside are freed like all others when nobody refers to them any more; only circles of them wait until
all is looked at again, once in ``ALL_EVERY_S``: some thousand of each full collection in between, of the requests that
were open then. And what is new is looked at less often: a web process makes thousands of objects a second, and most of
them are gone before anybody would look.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

ALL_EVERY_S = 300.0
YOUNG = 2_000
"""Objects more than were freed, after which those that are new are looked at."""
FULL = 2
"""The oldest generation: a collection of it is a full one."""


class Heap:
    """Follows the garbage collector of this process from ``keep_pauses_short`` until ``leave_alone``."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._all_at_s = 0.0
        self._before: tuple[int, int, int] | None = None

    def keep_pauses_short(self) -> None:
        self._all_at_s = self._monotonic_s() + ALL_EVERY_S
        self._before = gc.get_threshold()
        gc.set_threshold(YOUNG, *self._before[1:])
        gc.callbacks.append(self._follow)

    def leave_alone(self) -> None:
        """As if it had never been."""
        if self._before is not None:
            gc.callbacks.remove(self._follow)
            gc.set_threshold(*self._before)
            gc.unfreeze()
            self._before = None

    def _follow(self, phase: str, about: dict[str, int]) -> None:
        if about["generation"] != FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif self._monotonic_s() >= self._all_at_s:
            self._all_at_s = self._monotonic_s() + ALL_EVERY_S
            gc.unfreeze()


heap = Heap()
