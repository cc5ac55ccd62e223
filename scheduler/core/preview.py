"""What would become of a job that nobody has submitted: asked of the real planner, on a snapshot of one's own.

The job is put into the queue, ``plan()`` decides, the plan is read, and the job is taken out again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.core import rights
from scheduler.core.admission import refusal
from scheduler.core.attempts import lost_if_stopped_ms
from scheduler.core.fragmentation import largest_gang
from scheduler.core.job import Job
from scheduler.core.links import Speed, speed
from scheduler.core.plan import plan
from scheduler.core.queue import ranked
from scheduler.core.reasons import Holder, explain
from scheduler.core.rights import Exposure, Standing
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    ANY_GPU_TYPE,
    EventKind,
    JobChange,
    JobIntent,
    JobSpec,
    Phase,
    Plan,
    Policy,
    Reason,
    Reservation,
    ReservationsChange,
    StopCause,
)
from scheduler.core.work import Work


class Verdict(StrEnum):
    REFUSED = "refused"
    STARTS = "starts"
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the gang would sit. ``hosts`` are (node, GPUs taken), ``racks`` (rack, hosts, GPUs)."""

    gpu_type: str
    az: str
    racks: tuple[tuple[str, int, int], ...]
    hosts: tuple[tuple[str, int], ...]
    speed: Speed


@dataclass(frozen=True, slots=True)
class Victim:
    """Who would be stopped. ``lost_ms`` is useful work of each of its GPUs that no checkpoint would hold."""

    job: str
    team: str
    gpus: int
    cause: StopCause
    lost_ms: int


@dataclass(frozen=True, slots=True)
class Room:
    """What there is for a job of this type: GPUs ``free`` in one zone, the ``largest`` gang that could start, and how
    many jobs that ask for how many GPUs stand ``ahead`` in the queue."""

    free: int
    largest: int
    ahead_jobs: int = 0
    ahead_gpus: int = 0


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would become of the job.

    ``start_ms`` is now, or the start that the planner promises: it counts on every running job to use up its limit, so
    it is the latest unless hosts fail or a higher class comes. None where nothing is promised yet; ``earliest_ms`` is
    then when its GPUs could be free if nobody else in the queue took them. ``place`` is where it would sit, or where
    its start is promised. ``words`` say why it waits or could never run, ``holders`` who has what it waits for.
    """

    verdict: Verdict
    gpus: int
    gpu_type: str
    reason: Reason | None = None
    words: str = ""
    start_ms: int | None = None
    place: Place | None = None
    room: Room | None = None
    victims: tuple[Victim, ...] = ()
    standing: Standing | None = None
    exposure: Exposure | None = None
    earliest_ms: int | None = None
    holders: tuple[Holder, ...] = ()


def preview(snapshot: Snapshot, policy: Policy, spec: JobSpec, now_ms: int, *, brief: bool = False) -> Outlook:
    """Ask what would become of ``spec``. The snapshot is as before afterwards, but that no plan of it has work left.

    Args:
        snapshot: one's own (see ``scratch``), with nothing left to look at; ``spec.id`` is in use by none of its jobs.
        brief: leave out what takes a look at the whole queue and at the quota tree.
    """
    now_ms = max(now_ms, snapshot.now_ms)
    never = refusal(snapshot, spec, now_ms)
    if never is not None:
        return Outlook(Verdict.REFUSED, spec.gpus, spec.gpu_type, never.code, never.text)
    snapshot.set_job_intent(spec.id, JobIntent(spec))
    try:
        made = plan(snapshot, policy, now_ms, 0)
        return _read(snapshot, policy, snapshot.jobs[spec.id], made, now_ms, brief)
    finally:
        snapshot.set_job_intent(spec.id, None)
        snapshot.work = Work()


def _read(snapshot: Snapshot, policy: Policy, job: Job, made: Plan, now_ms: int, brief: bool) -> Outlook:
    spec = job.spec
    victims = _victims(snapshot, policy, job.id, made, now_ms)
    decision = next((c.decision for c in made.changes if isinstance(c, JobChange) and c.job == job.id), job.decision)
    if decision.phase is Phase.STARTING:
        taken = tuple((part.node, len(part.gpus)) for part in decision.allocation)
        place = _place(snapshot, decision.gpu_type, taken)
        outlook = Outlook(Verdict.STARTS, spec.gpus, spec.gpu_type, start_ms=now_ms, place=place)
    else:
        outlook = _waiting(snapshot, spec, decision.reason, victims, _promise(made, job.id), now_ms)
    if brief:
        return outlook
    if outlook.verdict is Verdict.WAITS:
        outlook = _explained(snapshot, policy, job, outlook, now_ms)
    gpu_type = outlook.place.gpu_type if outlook.place is not None else _likeliest(snapshot, spec)
    standing = rights.standing(snapshot, spec, gpu_type)
    exposure = rights.exposure(snapshot, policy, spec, standing)
    return replace(outlook, room=_room(snapshot, policy, job, now_ms), standing=standing, exposure=exposure)


def _waiting(
    snapshot: Snapshot,
    spec: JobSpec,
    told: Reason | None,
    victims: tuple[Victim, ...],
    held: Reservation | None,
    now_ms: int,
) -> Outlook:
    # Where others are stopped for it, the next plan will say so.
    reason = Reason.WAITING_FOR_PREEMPTION if victims else told
    outlook = Outlook(Verdict.WAITS, spec.gpus, spec.gpu_type, reason, victims=victims)
    if held is None:
        return outlook
    place = _place(snapshot, held.gpu_type, zip(held.nodes, held.takes, strict=True))
    return replace(outlook, start_ms=max(held.start_ms, now_ms), place=place)


def _explained(snapshot: Snapshot, policy: Policy, job: Job, outlook: Outlook, now_ms: int) -> Outlook:
    """With the numbers behind the reason that the plan gave."""
    snapshot.move(job, replace(job.decision, reason=outlook.reason))
    told = explain(snapshot, policy, job.id, now_ms)
    return replace(outlook, words=told.words, earliest_ms=told.start_ms, holders=told.holders)


def _promise(made: Plan, job: str) -> Reservation | None:
    for change in made.changes:
        if isinstance(change, ReservationsChange):
            return next((held for held in change.reservations.held if held.job == job), None)
    return None


def _place(snapshot: Snapshot, gpu_type: str, taken: Iterable[tuple[str, int]]) -> Place:
    hosts = tuple(taken)
    racks: Counter[str] = Counter()
    gpus: Counter[str] = Counter()
    az = ""
    for name, count in hosts:
        intent = snapshot.nodes[name].intent
        assert intent is not None
        az = intent.az
        racks[intent.rack] += 1
        gpus[intent.rack] += count
    names = [name for name, _ in hosts]
    spread = tuple((rack, count, gpus[rack]) for rack, count in racks.most_common())
    return Place(gpu_type, az, spread, hosts, speed(snapshot, names, sum(gpus.values())))


def _victims(snapshot: Snapshot, policy: Policy, job: str, made: Plan, now_ms: int) -> tuple[Victim, ...]:
    found = []
    for change in made.changes:
        if not isinstance(change, JobChange):
            continue
        stops = [e for e in change.events if e.kind is EventKind.STOP and e.detail.get("for") == job]
        if stops:
            other = snapshot.jobs[change.job]
            cause = StopCause(stops[-1].detail["cause"])
            lost = lost_if_stopped_ms(other, cause, policy, now_ms)
            found.append(Victim(other.id, other.spec.team, other.spec.gpus, cause, lost))
    return tuple(sorted(found, key=lambda victim: (-victim.gpus * victim.lost_ms, victim.job)))


def _likeliest(snapshot: Snapshot, spec: JobSpec) -> str:
    """The type that a job of any type is measured by while it has no place: that with the most GPUs free."""
    if spec.gpu_type != ANY_GPU_TYPE:
        return spec.gpu_type
    by_type = snapshot.topology.by_type
    return max(by_type, key=lambda name: sum(zone.free for zone in by_type[name]))


def _room(snapshot: Snapshot, policy: Policy, job: Job, now_ms: int) -> Room:
    spec = job.spec
    types = list(snapshot.topology.by_type) if spec.gpu_type == ANY_GPU_TYPE else [spec.gpu_type]
    free = max((zone.free for name in types for zone in snapshot.topology.by_type.get(name, ())), default=0)
    largest = max((largest_gang(snapshot, name) for name in types), default=0)
    order = ranked(snapshot, policy, now_ms)
    ahead = order[: order.index(job.id)] if job.id in order else []
    sizes = [
        snapshot.jobs[name].spec.gpus
        for name in ahead
        if ANY_GPU_TYPE in (spec.gpu_type, snapshot.jobs[name].spec.gpu_type)
        or snapshot.jobs[name].spec.gpu_type == spec.gpu_type
    ]
    return Room(free, largest, len(sizes), sum(sizes))
