"""Whom the planner stops, and what repair moves, against the least cost that an exact solver finds on small fleets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from scheduler.core.types import EventKind, JobChange, OnLoss, ReservationsChange
from tests.scheduler.core.exact import solver
from tests.scheduler.core.exact.fleets import Fleet, broken, contended
from tests.scheduler.core.exact.rights import Rights, by_class, by_share
from tests.scheduler.core.exact.solver import CLASS, Answer, cost_of

CASES = 500
LANE = CLASS[2]
"""Costs are GPUs of the more important classes in these units, and below them work lost."""


@dataclass(frozen=True)
class Planned:
    """What one plan did for the asker: whether it started at once, else why somebody is stopped for it."""

    started: bool
    cause: str | None
    answer: Answer | None


def _planned(fleet: Fleet) -> Planned:
    started, stopped, causes, domain = False, set(), set(), 0
    racks = {host.name: host.rack for host in fleet.hosts}
    for change in fleet.cluster().plan().changes:
        if isinstance(change, ReservationsChange):
            held = [one for one in change.reservations.held if one.job == fleet.asker.id and one.firm]
            nodes = held[0].nodes if held else ()
            domain = 0 if len(nodes) == 1 else 1 if len({racks[name] for name in nodes}) == 1 else 2
        elif isinstance(change, JobChange):
            for event in change.events:
                started = started or (event.kind is EventKind.BIND and event.job == fleet.asker.id)
                if event.kind is EventKind.STOP:
                    stopped.add(change.job)
                    causes.add(event.detail["cause"])
    if not stopped:
        return Planned(started, None, None)
    (cause,) = causes
    cost = cost_of(job for job in fleet.jobs if job.spec.id in stopped)
    return Planned(started, cause, Answer(frozenset(stopped), cost, domain))


def _least(fleet: Fleet) -> tuple[str, Answer] | None:
    """One's own is asked for before what only one's class gives."""
    rights = by_share(fleet)
    own = solver.victims(fleet, rights) if rights is not None else None
    if own is not None:
        return "reclaim", own
    other = solver.victims(fleet, by_class(fleet))
    return None if other is None else ("preempt", other)


def _least_moves(fleet: Fleet) -> tuple[str, Answer] | None:
    movable = [
        job
        for job in fleet.jobs
        if job.spec.checkpoint is not None
        and job.spec.on_preemption is OnLoss.RESUME
        and job.spec.priority >= fleet.asker.priority
    ]
    found = solver.moves(fleet, movable)
    return None if found is None else ("repair", found)


def _compare(
    make: Callable[[int], Fleet], least: Callable[[Fleet], tuple[str, Answer] | None], off: Callable[[Fleet], bool]
) -> tuple[int, list[str]]:
    """Plays seeds until somebody had to be stopped in ``CASES`` of them; how many that were, and what is wrong."""
    cases, wrong = 0, []
    for seed in range(10 * CASES):
        fleet = make(seed)
        if off(fleet):
            continue
        planned = _planned(fleet)
        if solver.victims(fleet, Rights([])) is not None:
            if not planned.started:
                wrong.append(f"{seed}: it fits what is free and was not started")
            continue
        found = least(fleet)
        if found is not None or planned.answer is not None:
            cases += 1
            wrong += [f"{seed}: {what}" for what in _against(planned, found)]
        if cases == CASES:
            break
    return cases, wrong


def _against(planned: Planned, found: tuple[str, Answer] | None) -> list[str]:
    ours = planned.answer
    if found is None or ours is None:
        return [
            "somebody is stopped, though there is no way" if found is None else "there is a way, and none was found"
        ]
    cause, exact = found
    if planned.cause != cause:
        return [f"{planned.cause} in place of {cause}"]
    mine, theirs = (ours.cost // LANE, ours.domain), (exact.cost // LANE, exact.domain)
    if mine != theirs or ours.cost % LANE > 1.1 * (exact.cost % LANE):
        return [f"{sorted(ours.stopped)} at {ours.cost}, and {sorted(exact.stopped)} at {exact.cost} would do"]
    return []


@pytest.mark.slow
def test_victims_cost_at_most_a_tenth_more_than_the_least() -> None:
    cases, wrong = _compare(contended, _least, lambda fleet: False)
    assert wrong == []
    assert cases == CASES


@pytest.mark.slow
def test_moves_cost_at_most_a_tenth_more_than_the_least() -> None:
    """But for one in a hundred: the best moves may stop somebody only to make room for another who is moved."""
    cases, wrong = _compare(broken, _least_moves, lambda fleet: fleet.most_free() < fleet.asker.gpus)
    assert len(wrong) <= CASES // 100, wrong
    assert cases == CASES
