"""Nodes as an asker could have them once some who are on them have left, and the cheapest to leave each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.job import Job
from scheduler.core.topology import Node, bits

MANY = 8
"""Of more victims on one host not every set is tried."""


class Room:
    """One node as the asker could have it: ``free`` GPUs now or without further cost, ``victims`` with what each would
    free here, ``most`` of both, ``least`` the cheapest victims by how many GPUs are wanted."""

    __slots__ = ("free", "least", "most", "node", "victims")

    def __init__(self, node: Node, free: int, victims: Sequence[tuple[Job, int]] = ()) -> None:
        self.node = node
        self.free = free
        self.victims = victims
        self.most = free
        for _, gpus in victims:
            self.most += gpus
        self.least: dict[int, list[Job] | None] = {}


class Rooms:
    """The rooms of one domain, and how many GPUs ``all`` of them could give at ``most``."""

    __slots__ = ("all", "most")

    def __init__(self, rooms: list[Room]) -> None:
        self.all = rooms
        self.most = sum([room.most for room in rooms])


def joined(parts: Iterable[Rooms]) -> Rooms:
    """Several domains as one."""
    return Rooms([room for rooms in parts for room in rooms.all])


@dataclass(frozen=True, slots=True)
class Rules:
    """``price`` of a victim; whether it ``may`` be stopped beside others; how many ranks a room ``carries`` once some
    are gone."""

    price: Callable[[Job], int]
    may: Callable[[Sequence[Job], list[Job]], bool]
    carries: Callable[[Room, Mapping[str, Job]], int]


def ways_on(room: Room, gpus: int, rules: Rules) -> list[tuple[int, list[Job]]]:
    """The sets of victims with which the room carries ``gpus`` ranks, cheapest first, none with one too many. None
    at all where there are too ``MANY`` to try every set."""
    if len(room.victims) > MANY:
        return []
    found: list[tuple[int, int]] = []
    prices = [rules.price(job) for job, _ in room.victims]
    for mask in range(1 << len(prices)):
        chosen = [room.victims[at][0] for at in range(len(prices)) if mask >> at & 1]
        if rules.carries(room, {job.id: job for job in chosen}) >= gpus:
            found.append((sum(price for at, price in enumerate(prices) if mask >> at & 1), mask))
    kept: list[int] = []
    answer = []
    for cost, mask in sorted(found):
        if not any(less & mask == less for less in kept):
            kept.append(mask)
            answer.append((cost, [room.victims[at][0] for at in range(len(prices)) if mask >> at & 1]))
    return answer


def least_on(room: Room, gpus: int, price: Callable[[Job], int]) -> list[Job] | None:
    """The cheapest victims on one node that free enough: a knapsack over at most a node's GPUs."""
    short = gpus - room.free
    if short <= 0:
        return []
    if short > sum(freed for _, freed in room.victims):
        return None
    best: list[tuple[int, int] | None] = [None] * (short + 1)
    best[0] = (0, 0)
    for at, (job, freed) in enumerate(room.victims):
        cost = price(job)
        for filled in range(short - 1, -1, -1):
            so_far = best[filled]
            if so_far is not None:
                to = min(short, filled + freed)
                option = (so_far[0] + cost, so_far[1] | 1 << at)
                known = best[to]
                if known is None or option < known:
                    best[to] = option
    full = best[short]
    if full is None:
        return None
    return [room.victims[at][0] for at in bits(full[1])]
