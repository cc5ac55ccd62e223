"""Arrays of jobs with a throttle: at most so many of one array are in the queue or hold GPUs at a time.

The others are parked, so that they are neither tried nor promised anything. Those that hold GPUs come first, then those
that wait, in the order of the array. Who is admitted changes between plans alone: within one, a job that is tried out
and taken back finds its place as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.core.types import HOLDING, Phase
from scheduler.core.waiting import natural

if TYPE_CHECKING:
    from scheduler.core.job import Job


class Arrays:
    """The elements of each array that has a throttle, and which of them may be tried.

    ``stirred`` are the arrays to be reviewed.
    """

    def __init__(self) -> None:
        self.stirred: set[str] = set()
        self._members: dict[str, dict[str, Job]] = {}
        self._admitted: dict[str, set[str]] = {}

    def enter(self, job: Job) -> None:
        """An element has come, or what people want of it has changed."""
        if job.spec.throttle:
            self._members.setdefault(job.spec.array, {})[job.id] = job
            self.stirred.add(job.spec.array)

    def leave(self, job: Job) -> None:
        members = self._members.get(job.spec.array)
        if members is not None and members.pop(job.id, None) is not None:
            self.stirred.add(job.spec.array)
            if not members:
                del self._members[job.spec.array]
                self._admitted.pop(job.spec.array, None)

    def stir(self, job: Job) -> None:
        """An element began or ceased to wait, or to hold GPUs."""
        if job.spec.throttle:
            self.stirred.add(job.spec.array)

    def admits(self, job: Job) -> bool:
        """Whether the element may be tried; every job without a throttle may."""
        return not job.spec.throttle or job.id in self._admitted.get(job.spec.array, ())

    def review(self, is_free: Callable[[Job], bool]) -> list[Job]:
        """Decide anew who is admitted where something stirred; answers those for whom that changed.

        Args:
            is_free: whether nothing else keeps a pending job from being tried.
        """
        changed: list[Job] = []
        for array in sorted(self.stirred & self._members.keys()):
            members = self._members[array]
            before, after = self._admitted.get(array, set()), self._chosen(members, is_free)
            self._admitted[array] = after
            changed += (members[name] for name in sorted(before ^ after) if name in members)
        self.stirred.clear()
        return changed

    @staticmethod
    def _chosen(members: dict[str, Job], is_free: Callable[[Job], bool]) -> set[str]:
        holding = {name for name, job in members.items() if job.phase in HOLDING}
        waiting = [job for job in members.values() if job.phase is Phase.PENDING and is_free(job)]
        waiting.sort(key=lambda job: (job.spec.submitted_ms, natural(job.spec.name), job.id))
        throttle = min(job.spec.throttle for job in members.values())
        return holding | {job.id for job in waiting[: max(0, throttle - len(holding))]}
