"""Why a job waits, with the numbers behind it: what it needs, what is free where, who holds the rest and until when,
and the smallest change that would start it now. Reads the snapshot and leaves no trace in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler.core.horizon import Horizon
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find, zones_for
from scheduler.core.quota import Branch, Quota
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import ANY_GPU_TYPE, Hint, JobSpec, Phase, Policy, Reason, Reservation
from scheduler.core.waiting import Shape, spot_providers
from scheduler.core.why import diagnose


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that has GPUs which the waiting one could use, and when it gives them back by plan."""

    job: str
    team: str
    gpus: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one wish of the job with which it would start now: the field of the submission and its value."""

    field: str
    value: str | int
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """``free`` and ``where`` are of the zone with the most free GPUs of a wanted type. ``start_ms`` is the planned
    start, None if none can be told. ``barrier`` names the quota node whose bound is reached, with ``bound`` and
    ``used``.
    """

    reason: Reason | None
    needed: int
    free: int
    where: str
    words: str
    start_ms: int | None = None
    holders: tuple[Holder, ...] = ()
    changes: tuple[Change, ...] = ()
    barrier: str | None = None
    bound: int | None = None
    used: int | None = None
    after: tuple[str, ...] = ()
    not_before_ms: int | None = None


def explain(snapshot: Snapshot, policy: Policy, job: str, now_ms: int) -> Explanation:
    """The explanation for a job that is known to the snapshot.

    Raises:
        KeyError: the job is not in the cluster.
    """
    record = snapshot.jobs[job]
    free, where = _most_free(snapshot, record.spec.gpu_type)
    base = Explanation(None, record.spec.gpus, free, where, "")
    if record.phase is not Phase.PENDING:
        return replace(base, words=f"It is {record.phase.value}.")
    parked = _parked(snapshot, record, base, now_ms)
    if parked is not None:
        return parked
    wall = _wall(snapshot, record.spec)
    if wall is not None:
        return _at_ceiling(base, record.spec, *wall)
    return _physical(snapshot, policy, record, base, now_ms)


def _most_free(snapshot: Snapshot, gpu_type: str) -> tuple[int, str]:
    zones = [zone for zones in zones_for(snapshot.topology, gpu_type) for zone in zones]
    if not zones:
        return 0, ""
    best = max(zones, key=lambda zone: zone.free)
    return best.free, f"{best.gpu_type} in {best.az}"


def _parked(snapshot: Snapshot, job: Job, base: Explanation, now_ms: int) -> Explanation | None:
    """What keeps it from being tried at all."""
    intent, decision = job.intent, job.decision
    if intent.hold:
        return replace(base, reason=Reason.HELD_BY_USER, words="It is held. Release it to have it tried.")
    left = tuple(name for name in intent.spec.after if name not in decision.met)
    if left:
        words = f"It waits for {', '.join(left)} to succeed."
        return replace(base, reason=Reason.DEPENDENCY, after=left, words=words)
    if decision.not_before_ms > now_ms:
        seconds = -(-(decision.not_before_ms - now_ms) // 1000)
        words = f"Its last attempt failed; it is tried again in {seconds} s."
        return replace(base, reason=Reason.BACKOFF, not_before_ms=decision.not_before_ms, words=words)
    if not snapshot.arrays.admits(job):
        words = f"At most {job.spec.throttle} of its array run at a time; others of it come first."
        return replace(base, reason=Reason.DEPENDENCY, words=words)
    return None


def _wall(snapshot: Snapshot, spec: JobSpec) -> tuple[Branch, str] | None:
    """The lowest bound that keeps the job out, if every type that it may use has one."""
    types = [spec.gpu_type] if spec.gpu_type != ANY_GPU_TYPE else sorted(snapshot.topology.by_type)
    leaf = snapshot.quota.by_name.get(spec.team)
    if leaf is None:
        return None
    walls = [(Quota.barrier(leaf, name, spec.gpus, spec.priority), name) for name in types]
    found = [(branch, name) for branch, name in walls if branch is not None]
    return found[0] if found and len(found) == len(walls) else None


def _at_ceiling(base: Explanation, spec: JobSpec, branch: Branch, gpu_type: str) -> Explanation:
    ceiling, used = branch.node.ceiling.get(gpu_type), branch.held.get(gpu_type, 0)
    if ceiling is None or used + spec.gpus <= ceiling:
        ceiling, used = branch.node.class_caps.get(spec.priority, 0), branch.by_class.get(spec.priority, 0)
    room = max(0, ceiling - used)
    changes = (Change("gpu_count", room, f"ask for at most {room} GPUs"),) if room else ()
    return replace(
        base,
        reason=Reason.QUOTA_CEILING,
        words=f"{branch.name} holds {used} of at most {ceiling} {gpu_type} GPUs; the job needs {spec.gpus}.",
        barrier=branch.name,
        bound=ceiling,
        used=used,
        changes=changes,
    )


def _physical(snapshot: Snapshot, policy: Policy, job: Job, base: Explanation, now_ms: int) -> Explanation:
    shape = job.shape if job.shape is not None else Shape(job.spec, job.decision.avoid, spot_providers(job.spec))
    limits = Limits(snapshot, now_ms)
    for held in snapshot.reservations.held:
        if held.job != job.id:
            limits.add(held)
    reason = job.decision.reason or diagnose(snapshot, limits, job, shape, now_ms)
    start = _planned(snapshot, limits, job, shape, now_ms)
    holders = tuple(_holders(snapshot, job, start, now_ms))
    changes = tuple(_changes(snapshot, limits, job, shape, now_ms))
    words = _words(reason, base)
    if shape.patient:
        minutes = -(-(snapshot.patience.until[job.id] - now_ms) // 60_000)
        words += f" It waits {minutes} more minutes for one rack before it takes several."
    if changes:
        words += f" It would start now if it were to {changes[0].words}."
    start_ms = start.start_ms if start is not None else None
    return replace(base, reason=reason, words=words, start_ms=start_ms, holders=holders, changes=changes)


def _planned(snapshot: Snapshot, limits: Limits, job: Job, shape: Shape, now_ms: int) -> Reservation | None:
    """What is promised to the job, or would be if it were its turn now."""
    for held in snapshot.reservations.held:
        if held.job == job.id:
            return held
    asker = Asker(job.id, job.spec.team, job.priority)
    left = remaining_ms(job.spec, job.decision)
    return Horizon(snapshot, limits, now_ms).start(asker, shape, left, None)


def _holders(snapshot: Snapshot, job: Job, start: Reservation | None, now_ms: int) -> Iterator[Holder]:
    """Who has the GPUs that the job is to get, those that keep them longest first."""
    if start is None:
        return
    gpus: dict[str, int] = {}
    for name in start.nodes:
        for other, mask in snapshot.node(name).jobs.items():
            gpus[other] = gpus.get(other, 0) + mask.bit_count()
    ends = {name: planned_end_ms(snapshot.jobs[name].spec, snapshot.jobs[name].decision) for name in gpus}
    for name in sorted(gpus, key=lambda name: (-ends[name], name)):
        yield Holder(name, snapshot.jobs[name].spec.team, gpus[name], max(now_ms, ends[name]))


def _changes(snapshot: Snapshot, limits: Limits, job: Job, shape: Shape, now_ms: int) -> Iterator[Change]:
    """The changes of one wish, each by itself, that would start the job now; the smallest first."""
    spec = job.spec
    left = remaining_ms(spec, job.decision)

    def starts(other: JobSpec, limit_ms: int = left) -> bool:
        wish = Shape(other, (), spot_providers(other))
        asker = Asker(job.id, spec.team, spec.priority)
        return find(snapshot.topology, wish, Sieve(wish, limits, asker, now_ms + limit_ms)) is not None

    if spec.topology_wait_ms and starts(spec):
        yield Change("topology_wait_minutes", 0, "not wait for one rack")
        return
    for minutes in (720, 240, 60, 30, 10):
        if minutes * 60_000 < left and starts(spec, minutes * 60_000):
            yield Change("max_runtime_hours", f"{minutes / 60:g}", f"end within {minutes} minutes")
            break
    for hint in (Hint.PREFER_SAME_RACK, Hint.ANY):
        if hint is not spec.hint and starts(replace(spec, hint=hint)):
            yield Change("topology_hint", hint.value, f"take the topology hint {hint.value}")
            break
    if spec.cpu_per_rank or spec.memory_per_rank_gb or spec.scratch_gb:
        lighter = replace(spec, cpu_per_rank=spec.cpu_per_rank // 2, memory_per_rank_gb=spec.memory_per_rank_gb // 2)
        if starts(lighter):
            yield Change("memory_per_rank_gb", lighter.memory_per_rank_gb, "ask for half the CPUs and memory a rank")
    for gpu_type in sorted(snapshot.topology.by_type):
        if gpu_type != spec.gpu_type and spec.gpu_type != ANY_GPU_TYPE and starts(replace(spec, gpu_type=gpu_type)):
            yield Change("gpu_type", gpu_type, f"run on {gpu_type}")
            break
    fewer = next((n for n in _smaller(spec.gpus) if starts(replace(spec, gpus=n))), None)
    if fewer is not None:
        yield Change("gpu_count", fewer, f"ask for {fewer} GPUs")


def _smaller(gpus: int) -> Iterator[int]:
    """Sizes below ``gpus``, from the largest on: whole hosts of eight, then what is less than one."""
    yield from range((gpus - 1) // 8 * 8, 7, -8)
    yield from range(min(gpus - 1, 7), 0, -1)


def _words(reason: Reason, base: Explanation) -> str:
    needed, free, where = base.needed, base.free, f" ({base.where})" if base.where else ""
    return {
        Reason.NEVER_FITS: f"No empty part of the fleet holds {needed} GPUs of this shape.",
        Reason.NOT_ENOUGH_FREE_GPUS: f"It needs {needed} GPUs in one zone; the most that are free are {free}{where}.",
        Reason.FRAGMENTED: f"It needs {needed} GPUs; {free} are free{where}, but in pieces that do not fit.",
        Reason.TOPOLOGY: f"{free} GPUs are free{where}, but not within the domain that it requires.",
        Reason.NOT_ENOUGH_CPU_OR_MEMORY: f"{free} GPUs are free{where}, without the CPUs, memory or scratch it needs.",
        Reason.HELD_FOR_LARGER_JOB: f"{free} GPUs are free{where}, and promised to a job that this one would delay.",
        Reason.BEHIND_IN_QUEUE: "Jobs that are to be tried before it are blocked, and nothing may pass them.",
        Reason.WAITING_FOR_PREEMPTION: "Its GPUs are being cleared: the jobs on them are saving their work.",
        Reason.MAINTENANCE: f"{free} GPUs are free{where}, on hosts that go into maintenance before it would end.",
        Reason.RESERVED: f"{free} GPUs are free{where}, and booked by another team from before it would end.",
        Reason.SPOT_NOT_ALLOWED: f"{free} GPUs are free{where}, on spot hosts that it may not use.",
        Reason.SCHEDULER_DEGRADED: "The scheduler is not working normally, so nothing is started.",
    }.get(reason, f"It waits: {reason.value}.")
