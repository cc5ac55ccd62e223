"""What an act on some hosts would do to the jobs there: the blast radius, told before it is done.

Pure, and leaves no trace in the snapshot: the gangs that would have to go are lifted off, the hosts are closed, and the
gangs are placed again by the real placement, in queue order, to see which fit elsewhere now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from scheduler.core.bookings import booked
from scheduler.core.draft import Draft
from scheduler.core.horizon import Horizon
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find, may_fit
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node
from scheduler.core.types import Phase, Policy, Reservation, ReservationIntent
from scheduler.core.waiting import Shape, spot_providers
from scheduler.core.work import Work


@dataclass(frozen=True, slots=True)
class Hit:
    """A gang that would be stopped: ``gpus`` are all of its, ``here`` those on the hosts in question.

    ``saves``: its work can be saved within the grace, or it has done none yet. ``lost_ms`` is the work that would be
    lost otherwise, of each GPU. ``fits``: the whole gang would find another place now.
    """

    job: str
    team: str
    priority: int
    phase: str
    gpus: int
    here: int
    saves: bool
    lost_ms: int
    fits: bool


@dataclass(frozen=True, slots=True)
class TeamHit:
    team: str
    jobs: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Blast:
    """``hosts`` and their ``host_gpus``, of which ``idle_gpus`` are free and would take no work any more.

    ``jobs``, ``gpus``, ``saves`` and ``fits`` count the gangs in ``hits`` and their GPUs; ``lost_gpu_ms`` sums up the
    work lost. ``stays`` counts the gangs there that go on as they are: all of them under a cordon, and those that will
    have ended by plan when a maintenance begins.
    """

    hosts: int
    host_gpus: int
    idle_gpus: int
    jobs: int
    gpus: int
    saves: int
    fits: int
    lost_gpu_ms: int
    stays: int
    teams: tuple[TeamHit, ...]
    hits: tuple[Hit, ...]


def of_cordon(snapshot: Snapshot, names: Iterable[str]) -> Blast:
    """Nobody is stopped; what is free there is closed."""
    return _sum(_known(snapshot, names), [], stays=len(_gangs(snapshot, names)))


def of_drain(
    snapshot: Snapshot, policy: Policy, names: Iterable[str], now_ms: int, from_ms: int | None = None
) -> Blast:
    """Everybody there has to go: now, or at ``from_ms`` for a maintenance that begins then."""
    nodes = _known(snapshot, names)
    gangs = _gangs(snapshot, names)
    begins = now_ms if from_ms is None else max(from_ms, now_ms)
    gone = [job for job in gangs if begins > now_ms and planned_end_ms(job.spec, job.decision) <= begins]
    stopped = [job for job in gangs if job not in gone and job.phase is not Phase.STOPPING]
    elsewhere = _elsewhere(snapshot, policy, nodes, stopped, now_ms)
    here = {node.name for node in nodes}
    hits = [_hit(job, here, policy, now_ms, job.id in elsewhere) for job in stopped]
    return _sum(nodes, hits, stays=len(gone))


def reservable(snapshot: Snapshot, policy: Policy, wish: ReservationIntent, now_ms: int) -> int:
    """How many of the GPUs wished for would be free at the start, by the plans that stand now."""
    with _untouched(snapshot):
        draft = Draft(snapshot, policy, now_ms, 0)
        bookings, snapshot.bookings = snapshot.bookings, {**snapshot.bookings, wish.name: wish}
        try:
            limits = Limits(snapshot, now_ms)
            held = booked(draft, limits, Horizon(snapshot, limits, now_ms), _teams_holds(snapshot))
        finally:
            snapshot.bookings = bookings
    return next((sum(one.takes) for one in held if one.name == wish.name), 0)


def words(blast: Blast) -> str:
    """The radius in a line: ``12 jobs, 640 GPUs, all can checkpoint; 3 fit elsewhere now``."""
    if not blast.jobs:
        stays = f"{_many(blast.stays, 'job')} go{'es' if blast.stays == 1 else ''} on there; " if blast.stays else ""
        return f"no job is stopped; {stays}{_many(blast.idle_gpus, 'free GPU')} closed"
    lost = blast.jobs - blast.saves
    saved = "all can checkpoint" if not lost else f"{lost} cannot checkpoint and lose {_hours(blast.lost_gpu_ms)}"
    fits = "all fit" if blast.fits == blast.jobs else f"{blast.fits} fit{'s' if blast.fits == 1 else ''}"
    return f"{_many(blast.jobs, 'job')}, {_many(blast.gpus, 'GPU')}, {saved}; {fits} elsewhere now"


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _hours(gpu_ms: int) -> str:
    hours = gpu_ms / 3_600_000
    return f"{hours:.0f} GPU-hours" if hours >= 10 else f"{hours:.1f} GPU-hours"


def _known(snapshot: Snapshot, names: Iterable[str]) -> list[Node]:
    return [snapshot.nodes[name] for name in sorted(set(names)) if name in snapshot.nodes]


def _gangs(snapshot: Snapshot, names: Iterable[str]) -> list[Job]:
    """The gangs with a part on these nodes, in the order in which they would be tried: by class, then by age."""
    found = {job for node in _known(snapshot, names) for job in node.jobs}
    return sorted(snapshot.pick(found), key=lambda job: (job.priority, job.spec.submitted_ms, job.id))


def _hit(job: Job, here: set[str], policy: Policy, now_ms: int, fits: bool) -> Hit:
    spec, decision = job.spec, job.decision
    works = job.phase is Phase.RUNNING and decision.started_ms is not None
    saves = not works or (spec.checkpoint is not None and spec.checkpoint.takes_ms <= policy.grace_ms)
    since = max(now_ms if decision.started_ms is None else decision.started_ms, decision.saved_at_ms)
    return Hit(
        job=job.id,
        team=spec.team,
        priority=job.priority,
        phase=job.phase.value,
        gpus=spec.gpus,
        here=sum(len(part.gpus) for part in decision.allocation if part.node in here),
        saves=saves,
        lost_ms=0 if saves else max(0, now_ms - since),
        fits=fits,
    )


def _sum(nodes: list[Node], hits: list[Hit], stays: int) -> Blast:
    teams: dict[str, list[Hit]] = {}
    for hit in hits:
        teams.setdefault(hit.team, []).append(hit)
    by_team = [TeamHit(team, len(own), sum(hit.gpus for hit in own)) for team, own in teams.items()]
    return Blast(
        hosts=len(nodes),
        host_gpus=sum(node.all_mask.bit_count() for node in nodes),
        idle_gpus=sum(node.free_gpus for node in nodes if node.open),
        jobs=len(hits),
        gpus=sum(hit.gpus for hit in hits),
        saves=sum(hit.saves for hit in hits),
        fits=sum(hit.fits for hit in hits),
        lost_gpu_ms=sum(hit.lost_ms * hit.gpus for hit in hits),
        stays=stays,
        teams=tuple(sorted(by_team, key=lambda hit: (-hit.gpus, hit.team))),
        hits=tuple(hits),
    )


def _elsewhere(snapshot: Snapshot, policy: Policy, nodes: list[Node], gangs: list[Job], now_ms: int) -> set[str]:
    """Which of the gangs would be placed at once if all of them left and these nodes were closed."""
    with _untouched(snapshot), _closed(snapshot, nodes):
        draft = Draft(snapshot, policy, now_ms, 0)
        try:
            for job in gangs:
                draft.assume(job, replace(job.decision, phase=Phase.PENDING, allocation=(), not_before_ms=0))
            limits = Limits(snapshot, now_ms)
            for held in snapshot.reservations.held:
                limits.add(held)
            return _placed(draft, limits, gangs)
        finally:
            draft.forget(0)


def _placed(draft: Draft, limits: Limits, gangs: list[Job]) -> set[str]:
    found: set[str] = set()
    refused: set[tuple[object, ...]] = set()
    for job in gangs:
        spec = job.spec
        shape = Shape(spec, job.decision.avoid, spot_providers(spec))
        left = remaining_ms(spec, job.decision)
        key = (*shape.key(), spec.team, job.priority)
        if key in refused or not may_fit(draft.snapshot.topology, shape):
            continue
        sieve = Sieve(shape, limits, Asker(job.id, spec.team, job.priority), draft.now_ms + left)
        place = find(draft.snapshot.topology, shape, sieve)
        if place is None:
            refused.add(key)
            continue
        found.add(job.id)
        bound = replace(
            job.decision,
            phase=Phase.STARTING,
            allocation=place.slices(),
            gpu_type=place.gpu_type,
            bound_ms=draft.now_ms,
            started_ms=None,
        )
        draft.assume(job, bound)
    return found


def _teams_holds(snapshot: Snapshot) -> list[Reservation]:
    return [held for held in snapshot.reservations.held if held.job is None]


@contextmanager
def _closed(snapshot: Snapshot, nodes: list[Node]) -> Iterator[None]:
    were = [(node, node.open) for node in nodes]
    try:
        for node in nodes:
            node.open = False
            snapshot.topology.refile(node)
        yield
    finally:
        for node, was in were:
            node.open = was
            snapshot.topology.refile(node)


@contextmanager
def _untouched(snapshot: Snapshot) -> Iterator[None]:
    """What is tried out within is no work for the next plan."""
    work, timers = snapshot.work, list(snapshot.timers)
    snapshot.work = Work()
    try:
        yield
    finally:
        snapshot.work, snapshot.timers = work, timers
