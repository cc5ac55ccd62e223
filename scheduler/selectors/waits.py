"""Who waits for what, all in all, and who is in the way of those that are promised a place."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Phase, Reservation
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class Demand:
    """What one team has waiting of one GPU type. ``oldest_ms`` is when its oldest job was submitted."""

    team: str
    gpu_type: str
    jobs: int
    gpus: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class InTheWay:
    """What one team's jobs hold of the hosts that are promised to somebody, until ``until_ms`` by their limits."""

    team: str
    jobs: int
    gpus: int
    until_ms: int


def demand(picture: Picture) -> list[Demand]:
    """By team and type, over the whole queue. Raises StoreUnavailable."""
    sums: dict[tuple[str, str], list[int]] = {}
    with picture.reading() as snapshot:
        for job in snapshot.jobs.values():
            if job.phase is Phase.PENDING:
                held = sums.setdefault((job.spec.team, job.spec.gpu_type), [0, 0, job.spec.submitted_ms])
                held[0] += 1
                held[1] += job.spec.gpus
                held[2] = min(held[2], job.spec.submitted_ms)
    return [Demand(team, gpu_type, *held) for (team, gpu_type), held in sorted(sums.items())]


def in_the_way(picture: Picture, now_ms: int) -> dict[str, list[InTheWay]]:
    """By the job that is promised hosts: who is on them, those that stay longest first. Raises StoreUnavailable."""
    with picture.reading() as snapshot:
        return {
            held.job: _on(snapshot, held, now_ms)
            for held in snapshot.reservations.held
            if held.job is not None and held.job in snapshot.jobs
        }


def _on(snapshot: Snapshot, held: Reservation, now_ms: int) -> list[InTheWay]:
    gpus: dict[str, int] = {}
    for name in held.nodes:
        node = snapshot.nodes.get(name)
        for holder, mask in node.jobs.items() if node is not None else ():
            gpus[holder] = gpus.get(holder, 0) + mask.bit_count()
    teams: dict[str, InTheWay] = {}
    for name, count in gpus.items():
        job = snapshot.jobs[name]
        ends = max(now_ms, planned_end_ms(job.spec, job.decision))
        team = teams.get(job.spec.team, InTheWay(job.spec.team, 0, 0, 0))
        teams[job.spec.team] = InTheWay(team.team, team.jobs + 1, team.gpus + count, max(team.until_ms, ends))
    return sorted(teams.values(), key=lambda one: (-one.until_ms, one.team))
