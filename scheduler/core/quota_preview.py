"""What another quota tree would do, before it does it: the real planner is run under both trees, and what comes of it
is told apart. Pure; leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scheduler.core.admission import Refusal, refusal
from scheduler.core.balance import Line, balance, promised, usable
from scheduler.core.rollout import Course, Rollout, Stopping
from scheduler.core.scratch import Records, Scratch
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobSpec, Phase, Policy, QuotaTree, StopCause

AHEAD_MS = 24 * 3_600_000
PLANS = 120
"""How far each way forward is followed: a day, or so many plans."""
GRAIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class LevelShift:
    """What becomes of one node's own of one GPU type. ``before`` or ``after`` is None for a node of one tree alone."""

    node: str
    gpu_type: str
    before: Line | None
    after: Line | None


@dataclass(frozen=True, slots=True)
class OverCeiling:
    """A node holds ``held`` GPUs, more than the ``ceiling`` that it would have. Its ``jobs`` run on; none starts."""

    node: str
    gpu_type: str
    held: int
    ceiling: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """``promised`` GPUs are guaranteed to a node and those below it (``""``: to all), and the fleet has ``total``, of
    which ``usable`` are in service."""

    node: str
    gpu_type: str
    promised: int
    total: int
    usable: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that would be stopped for ``for_job`` (of ``for_team``), about ``at_ms``."""

    job: str
    team: str
    gpus: int
    gpu_type: str
    cause: StopCause
    for_job: str | None
    for_team: str | None
    at_ms: int
    lost_ms: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A waiting job whose start would move; None: not within the time looked at."""

    job: str
    team: str
    gpus: int
    gpu_type: str
    before_ms: int | None
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class Barred:
    """A waiting job that could never start under the tree, and why."""

    job: str
    team: str
    gpus: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class QuotaPreview:
    """What the drafted tree would do at ``now_ms``, by plans up to ``until_ms``; ``whole``: as far as one looks.

    ``stopped`` are stopped under it and not under the tree in force, ``spared`` the other way round. ``later`` and
    ``earlier`` hold the waiting jobs whose start moves by more than a minute, those that move most first.
    """

    now_ms: int
    until_ms: int
    levels: tuple[LevelShift, ...]
    over: tuple[OverCeiling, ...]
    undeliverable: tuple[Undeliverable, ...]
    stopped: tuple[Stopped, ...]
    spared: tuple[Stopped, ...]
    barred: tuple[Barred, ...]
    later: tuple[Shift, ...]
    earlier: tuple[Shift, ...]
    whole: bool = True

    @property
    def quiet(self) -> bool:
        """Whether nobody would notice."""
        return not (
            self.levels or self.over or self.stopped or self.spared or self.barred or self.later or self.earlier
        )


def preview(
    seen: Records,
    drafted: QuotaTree,
    policy: Policy,
    now_ms: int,
    enough: Callable[[Fraction], bool] = lambda done: False,
) -> QuotaPreview:
    """Compare ``drafted`` with the tree in force on the cluster that ``seen`` recorded.

    Args:
        enough: asked before each plan, with the part of the way that is done; once true, both ways forward end where
            they are.
    """
    present, future = Scratch().follow(seen), Scratch().follow(seen)
    future.set_quota(drafted)
    levels = _levels(present, future)
    over, undeliverable, barred = _over(future), _undeliverable(future), _barred(present, future, now_ms)
    now_ms = max(now_ms, present.now_ms)
    waiting = {job.id: job.spec for job in present.jobs.values() if job.phase is Phase.PENDING}
    specs = {job.id: job.spec for job in present.jobs.values()}
    types = {job.id: job.decision.gpu_type or job.spec.gpu_type for job in present.jobs.values()}
    before, after, whole = _both(present, future, policy, now_ms, enough)
    until = min(before.until_ms, after.until_ms)
    moved = _shifts(waiting, before, after, until)
    return QuotaPreview(
        now_ms=now_ms,
        until_ms=until,
        levels=levels,
        over=over,
        undeliverable=undeliverable,
        stopped=_stopped(after, before, until, specs, types),
        spared=_stopped(before, after, until, specs, types),
        barred=barred,
        later=tuple(one for one in moved if _moved_by(one, until) > 0),
        earlier=tuple(one for one in moved if _moved_by(one, until) < 0),
        whole=whole,
    )


def _both(
    present: Snapshot, future: Snapshot, policy: Policy, now_ms: int, enough: Callable[[Fraction], bool]
) -> tuple[Course, Course, bool]:
    """Both ways forward in turns, so that time that runs out cuts both at about the same point, and whether neither was
    cut."""
    ways = [Rollout(snapshot, policy, now_ms, GRAIN_MS) for snapshot in (present, future)]
    cut = False

    def asked() -> bool:
        nonlocal cut
        cut = cut or enough(sum((_done(way.course, now_ms) for way in ways), Fraction(0)) / len(ways))
        return cut

    for plans in range(10, PLANS + 1, 10):
        for way in ways:
            if way.course.until_ms < now_ms + AHEAD_MS:
                way.run(now_ms + AHEAD_MS, plans, asked)
        if cut:
            break
    return ways[0].course, ways[1].course, not cut


def _done(course: Course, now_ms: int) -> Fraction:
    """The part of the way that a course has been followed: in time or in plans, whichever ends it first."""
    ahead = Fraction(max(0, course.until_ms - now_ms), AHEAD_MS)
    return min(Fraction(1), max(ahead, Fraction(course.plans, PLANS)))


def _levels(present: Snapshot, future: Snapshot) -> tuple[LevelShift, ...]:
    found = []
    for gpu_type in sorted(present.topology.by_type):
        was = {line.node: line for line in balance(present, gpu_type)}
        now = {line.node: line for line in balance(future, gpu_type)}
        for node in [*now, *(name for name in was if name not in now)]:
            one, other = was.get(node), now.get(node)
            same = one is not None and other is not None and one.own == other.own and one.assured == other.assured
            if not same:
                found.append(LevelShift(node, gpu_type, one, other))
    return tuple(found)


def _over(future: Snapshot) -> tuple[OverCeiling, ...]:
    found = []
    for branch in future.quota.root.below():
        for gpu_type, ceiling in sorted(branch.node.ceiling.items()):
            held = branch.held.get(gpu_type, 0)
            if held > ceiling:
                jobs = sum(
                    1
                    for job in future.holding.values()
                    if job.decision.gpu_type == gpu_type and job.leaf is not None and branch in job.leaf.path
                )
                found.append(OverCeiling(branch.name, gpu_type, held, ceiling, jobs))
    return tuple(found)


def _undeliverable(future: Snapshot) -> tuple[Undeliverable, ...]:
    """Where more is guaranteed than there is: to all together, and to any node by itself."""
    found = []
    floors = promised(future.quota.tree)
    for node in ["", *(node.name for node in future.quota.tree.nodes)]:
        for gpu_type, gpus in sorted(floors[node].items()):
            total, serving = future.topology.total.get(gpu_type, 0), usable(future, gpu_type)
            if gpus > min(total, serving):
                found.append(Undeliverable(node, gpu_type, gpus, total, serving))
    return tuple(found)


def _barred(present: Snapshot, future: Snapshot, now_ms: int) -> tuple[Barred, ...]:
    found = []
    for job in present.jobs.values():
        if job.phase is not Phase.PENDING:
            continue
        never = refusal(future, job.spec, now_ms)
        if never is not None and refusal(present, job.spec, now_ms) is None:
            found.append(Barred(job.id, job.spec.team, job.spec.gpus, never))
    return tuple(found)


def _stopped(
    course: Course, other: Course, until_ms: int, specs: dict[str, JobSpec], types: dict[str, str]
) -> tuple[Stopped, ...]:
    """The jobs that one course stops for others and the other does not, each at its first stop."""
    known = {stop.job for stop in other.stops if stop.at_ms <= until_ms}
    first: dict[str, Stopping] = {}
    for stop in course.stops:
        if stop.job not in known and stop.at_ms <= until_ms:
            first.setdefault(stop.job, stop)
    return tuple(
        Stopped(
            job=stop.job,
            team=specs[stop.job].team,
            gpus=specs[stop.job].gpus,
            gpu_type=types[stop.job],
            cause=stop.cause,
            for_job=stop.for_job,
            for_team=specs[stop.for_job].team if stop.for_job in specs else None,
            at_ms=stop.at_ms,
            lost_ms=stop.lost_ms,
        )
        for stop in first.values()
    )


def _shifts(waiting: dict[str, JobSpec], before: Course, after: Course, until_ms: int) -> list[Shift]:
    found = []
    for name, spec in waiting.items():
        was, now = (course.starts.get(name) for course in (before, after))
        shift = Shift(
            name,
            spec.team,
            spec.gpus,
            spec.gpu_type,
            was if was is not None and was <= until_ms else None,
            now if now is not None and now <= until_ms else None,
        )
        if abs(_moved_by(shift, until_ms)) > 2 * GRAIN_MS:
            found.append(shift)
    found.sort(key=lambda shift: (-abs(_moved_by(shift, until_ms)), shift.job))
    return found


def _moved_by(shift: Shift, until_ms: int) -> int:
    """By how long the start moves, in milliseconds; one that is out of sight counts as just beyond what was seen."""
    beyond = until_ms + 4 * GRAIN_MS
    was = beyond if shift.before_ms is None else shift.before_ms
    now = beyond if shift.after_ms is None else shift.after_ms
    return now - was
