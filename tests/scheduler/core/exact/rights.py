"""Who may be stopped for whom, from the rules alone: by share among teams side by side, and by class."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from tests.scheduler.core.exact.fleets import NOW_MS, Fleet, Ran


@dataclass
class Rights:
    """``victims`` may be stopped, each by itself; of a team in ``most`` no more GPUs than that altogether, and of one
    in ``beyond`` less than that before the last (the largest) of its victims."""

    victims: list[Ran]
    most: dict[str, int] = field(default_factory=dict)
    beyond: dict[str, Fraction] = field(default_factory=dict)


def by_share(fleet: Fleet) -> Rights | None:
    """What the asker's team may take back of its own; None if it may not."""
    asker = fleet.asker
    held = {team.name: 0 for team in fleet.teams}
    for job in fleet.jobs:
        held[job.spec.team] += job.spec.gpus
    own = _owned(fleet, {**held, asker.team: held[asker.team] + asker.gpus})
    if held[asker.team] + asker.gpus > floor(own[asker.team]):
        return None
    floors = {team.name: team.floor.get("H100", 0) for team in fleet.teams}
    others = {name: gpus for name, gpus in held.items() if name != asker.team}
    lent = {name: gpus - ceil(own[name]) for name, gpus in others.items()}
    beyond: dict[str, Fraction] = {}
    if held[asker.team] + asker.gpus <= floors[asker.team]:
        lent = {name: gpus - floors[name] for name, gpus in others.items() if gpus > own[name]}
        beyond = {name: gpus - own[name] for name, gpus in others.items()}
    run = {team.name: team.min_runtime_ms for team in fleet.teams}
    victims = [
        job
        for job in fleet.jobs
        if lent.get(job.spec.team, 0) >= job.spec.gpus
        and NOW_MS - job.started_ms >= run[job.spec.team]
        and not (job.spec.priority == 0 < asker.priority)
    ]
    return Rights(victims, lent, beyond)


def by_class(fleet: Fleet) -> Rights:
    """Whose place the asker's class lets it take."""
    asker = fleet.asker
    return Rights(
        [
            job
            for job in fleet.jobs
            if job.spec.priority > asker.priority and (asker.priority == 0 or job.spec.team == asker.team)
        ]
    )


def _owned(fleet: Fleet, wishes: dict[str, int]) -> dict[str, Fraction]:
    """The fleet divided among the teams: nobody gets more than it wants nor less than its floor, the rest by share."""
    total = sum(host.gpus for host in fleet.hosts)
    teams = {team.name: (team.share, min(team.floor.get("H100", 0), wishes[team.name])) for team in fleet.teams}

    def at(level: Fraction) -> dict[str, Fraction]:
        return {
            name: min(Fraction(wishes[name]), max(Fraction(least), share * level))
            for name, (share, least) in teams.items()
        }

    if sum(wishes.values()) <= total:
        return {name: Fraction(wish) for name, wish in wishes.items()}
    turns = {Fraction(0)}
    for name, (share, least) in teams.items():
        turns |= {Fraction(least) / share, Fraction(wishes[name]) / share}
    below = max(level for level in turns if sum(at(level).values()) <= total)
    slope = sum((share for name, (share, least) in teams.items() if least <= share * below < wishes[name]), Fraction(0))
    missing = total - sum(at(below).values())
    return at(below + missing / slope) if slope else at(below)
