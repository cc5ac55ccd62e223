"""The cheapest victims in one domain, by trying all sets that could be cheaper than what is known: for small domains.

The search goes host by host (or, for pieces, job by job) and leaves a branch as soon as its cost, with a lower bound
for what is still missing, reaches the best one found. It ends after ``STEPS`` at the latest, with the best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from scheduler.core.job import Job
from scheduler.core.rooms import Room, Rules, ways_on
from scheduler.core.tally import Need

SMALL = 24
"""The most hosts of a zone among which every set is worth trying."""

STEPS = 3_000


Seat = TypeVar("Seat")


class Cheapest(Generic[Seat]):
    """One search among ``rooms`` for what ``need`` asks, for less than ``below``.

    ``seat`` puts the asker in the place of some victims, with the remainder in the room of that number if one is given;
    it answers None where that is no good.
    """

    def __init__(
        self,
        rooms: Sequence[Room],
        need: Need,
        rules: Rules,
        below: int | None,
        seat: Callable[[list[Job], int | None], Seat | None],
    ) -> None:
        self._rooms = rooms
        self._need = need
        self._rules = rules
        self._below = below
        self._seat = seat
        self._best: Seat | None = None
        self._steps = STEPS
        self._ways: dict[int, list[tuple[int, list[Job]]]] = {}

    def find(self) -> Seat | None:
        """The best seat; None if there is none for less."""
        if self._need.pieces:
            self._by_jobs({}, 0, self._by_density(), 0)
        else:
            whole = [at for at, room in enumerate(self._rooms) if room.most >= self._need.size]
            self._by_rooms({}, 0, whole)
        return self._best

    def _spend(self) -> bool:
        self._steps -= 1
        return self._steps > 0

    def _is_less(self, cost: int) -> bool:
        return self._below is None or cost < self._below

    def _keep(self, chosen: dict[str, Job], cost: int, rest_in: int | None = None) -> bool:
        """Whether there is nothing cheaper to be had in this way."""
        if not self._is_less(cost):
            return True
        seat = self._seat(list(chosen.values()), rest_in)
        if seat is not None:
            self._best, self._below = seat, cost
        return seat is not None

    def _with(self, chosen: dict[str, Job], more: Sequence[Job]) -> tuple[dict[str, Job], int] | None:
        """What is chosen with these, and what they add to the cost; None if one of them may not be stopped then."""
        new = [job for job in more if job.id not in chosen]
        if not self._rules.may(new, list(chosen.values())):
            return None
        return chosen | {job.id: job for job in new}, sum(map(self._rules.price, new))

    # --- whole nodes, and one more for the remainder ------------------------------------------------------------

    def _by_rooms(self, chosen: dict[str, Job], cost: int, left: list[int]) -> None:
        if not self._spend():
            return
        ready = [at for at in range(len(self._rooms)) if self._is_ready(at, chosen)]
        missing = self._need.whole - len(ready)
        if missing <= 0:
            self._end(chosen, cost, ready)
            return
        open_rooms = sorted((self._part(at, chosen), at) for at in left if at not in ready)
        for first in range(len(open_rooms) - missing + 1):
            least = sum(part for part, _ in open_rooms[first : first + missing])
            if not self._is_less(cost + least):
                return
            _, at = open_rooms[first]
            grown = self._with(chosen, [job for job, _ in self._rooms[at].victims])
            if grown is not None and self._is_less(cost + grown[1]):
                self._by_rooms(grown[0], cost + grown[1], [other for _, other in open_rooms[first + 1 :]])

    def _is_ready(self, at: int, chosen: dict[str, Job]) -> bool:
        return self._rules.carries(self._rooms[at], chosen) >= self._need.size

    def _part(self, at: int, chosen: dict[str, Job]) -> int:
        """The least that making the room ready adds: of a gang's price the part that it has there."""
        new = [(job, gpus) for job, gpus in self._rooms[at].victims if job.id not in chosen]
        return sum(self._rules.price(job) * gpus // job.spec.gpus for job, gpus in new)

    def _end(self, chosen: dict[str, Job], cost: int, ready: list[int]) -> None:
        """Enough whole nodes are ready: find the remainder the cheapest place beside them."""
        rest = self._need.rest
        done = not rest or len(ready) > self._need.whole or self._has_rest(chosen, ready)
        if done and (self._keep(chosen, cost) or not rest):
            return
        for at, room in enumerate(self._rooms):
            if at in ready or room.most < rest:
                continue
            if at not in self._ways:
                self._ways[at] = ways_on(room, rest, self._rules)
            for _, way in self._ways[at]:
                grown = self._with(chosen, way)
                if grown is not None:
                    self._keep(grown[0], cost + grown[1], at)

    def _has_rest(self, chosen: dict[str, Job], ready: list[int]) -> bool:
        others = (room for at, room in enumerate(self._rooms) if at not in ready)
        return any(self._rules.carries(room, chosen) >= self._need.rest for room in others)

    # --- pieces -------------------------------------------------------------------------------------------------

    def _by_density(self) -> list[tuple[Job, int]]:
        """The victims with what they free in all rooms, those that free most for their price first."""
        freed: dict[str, tuple[Job, int]] = {}
        for room in self._rooms:
            for job, gpus in room.victims:
                freed[job.id] = (job, freed.get(job.id, (job, 0))[1] + gpus)
        useful = [pair for pair in freed.values() if pair[1]]
        return sorted(useful, key=lambda pair: (self._rules.price(pair[0]) // pair[1], pair[0].id))

    def _by_jobs(self, chosen: dict[str, Job], cost: int, jobs: list[tuple[Job, int]], first: int) -> None:
        if not self._spend():
            return
        if self._gathers(chosen):
            self._keep(chosen, cost)
            return
        for at in range(first, len(jobs)):
            if not self._is_less(cost + self._bound(chosen, jobs, at)):
                return
            grown = self._with(chosen, [jobs[at][0]])
            if grown is not None and self._is_less(cost + grown[1]):
                self._by_jobs(grown[0], cost + grown[1], jobs, at + 1)

    def _gathers(self, chosen: dict[str, Job]) -> bool:
        return sum(self._rules.carries(room, chosen) for room in self._rooms) >= self._need.size

    def _bound(self, chosen: dict[str, Job], jobs: list[tuple[Job, int]], first: int) -> int:
        """The least for which the jobs from ``first`` on could free what is missing, if they could go in part."""
        free = sum(room.free for room in self._rooms)
        free += sum(gpus for room in self._rooms for job, gpus in room.victims if job.id in chosen)
        missing, least = self._need.size - free, 0
        for job, gpus in jobs[first:]:
            if missing <= 0:
                break
            least += self._rules.price(job) * min(missing, gpus) // gpus
            missing -= gpus
        return least
