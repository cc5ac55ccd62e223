"""The moves of one attempt, as decisions with the events that tell of them; pure functions of a job as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from scheduler.core.job import Job
from scheduler.core.records import replaced
from scheduler.core.types import (
    Event,
    EventKind,
    JobDecision,
    OnLoss,
    Phase,
    Policy,
    Reason,
    Slice,
    Stop,
    StopCause,
)

DAY_MS = 86_400_000
LONGEST_BACKOFF_MS = 3_600_000
FOR_OTHERS = frozenset({StopCause.PREEMPT, StopCause.RECLAIM, StopCause.REPAIR})
"""The stops that make room for somebody else; their number a day is bounded."""

FINAL = frozenset({StopCause.CANCEL, StopCause.TIME_LIMIT})
"""The stops after which a job is over."""

Moved = tuple[JobDecision, list[Event]]


def tell(kind: EventKind, job: Job, decision: JobDecision, now_ms: int, **detail: Any) -> Event:
    """An event of the attempt that ``decision`` is about. Every job's event carries the phase after it."""
    detail["phase"] = decision.phase.value
    return Event(kind, now_ms, job.id, None, decision.attempt, detail)


def indices(allocation: Sequence[Slice]) -> dict[str, list[int]]:
    return {part.node: list(part.gpus) for part in allocation}


def bound(job: Job, allocation: tuple[Slice, ...], gpu_type: str, policy: Policy, fence: int, now_ms: int) -> Moved:
    """The next attempt on ``allocation``: its ranks get ready until ``start_timeout`` is over."""
    old = job.decision
    decision = JobDecision(
        phase=Phase.STARTING,
        attempt=old.attempt + 1,
        fence=fence,
        allocation=allocation,
        gpu_type=gpu_type,
        bound_ms=now_ms,
        first_started_ms=old.first_started_ms,
        deadline_ms=now_ms + policy.start_timeout_ms,
        banked_ms=old.saved_work_ms,
        saved_work_ms=old.saved_work_ms,
        saved_at_ms=old.saved_at_ms,
        restarts=old.attempt,
        failures=old.failures,
        stops=old.stops,
        stopped_ms=old.stopped_ms,
        stopped_for=old.stopped_for,
        lost_ms=old.lost_ms,
        stop=old.stop,
        avoid=old.avoid,
        met=old.met,
        manifest=old.manifest,
        resume_from=old.manifest,
        failed_on=old.failed_on,
    )
    gpus = indices(allocation)
    placed = [[node, held] for node, held in gpus.items()]
    detail = {"gpus": gpus, "fence": fence, "phase": "STARTING", "allocation": placed, "gpu_type": gpu_type}
    if decision.resume_from:
        detail["resume_from"] = decision.resume_from
    return decision, [Event(EventKind.BIND, now_ms, job.id, None, decision.attempt, detail)]


def started(job: Job, now_ms: int, master_port: int = 0) -> Moved:
    """The barrier opens: every rank is ready and may run; they meet at ``master_port`` of the host of rank 0."""
    first = job.decision.first_started_ms
    decision = replaced(
        job.decision,
        phase=Phase.RUNNING,
        started_ms=now_ms,
        first_started_ms=now_ms if first is None else first,
        deadline_ms=None,
        avoid=(),
        master_port=master_port,
    )
    return decision, [tell(EventKind.START, job, decision, now_ms)]


def told_to_save(job: Job, now_ms: int) -> Moved:
    """The ranks are asked for a checkpoint beside their work: something is coming over one of their hosts."""
    return replaced(job.decision, save_ms=now_ms), []


class Saved(Protocol):
    """A complete checkpoint as nodes report it: when it was complete, its address and step where it has one."""

    saved_at_ms: int
    manifest: str
    step: int


def saved(job: Job, decision: JobDecision, what: Saved, work_ms: int, now_ms: int) -> Moved:
    """A newer complete checkpoint, holding ``work_ms`` of useful work, is known."""
    manifest = what.manifest or decision.manifest
    decision = replaced(decision, saved_work_ms=work_ms, saved_at_ms=what.saved_at_ms, manifest=manifest)
    detail: dict[str, Any] = {"work_ms": work_ms}
    if what.manifest:
        detail |= {"manifest": what.manifest, "step": what.step, "saved_at_ms": what.saved_at_ms}
    return decision, [tell(EventKind.CHECKPOINT, job, decision, now_ms, **detail)]


def asked(job: Job, cause: StopCause, deadline_ms: int, for_job: str | None, now_ms: int) -> Moved:
    """A stop with handshake of a running attempt begins."""
    old = job.decision
    known = ("",) * (len(old.stopped_ms) - len(old.stopped_for)) + old.stopped_for
    kept = [(at, name) for at, name in zip(old.stopped_ms, known, strict=True) if at > now_ms - DAY_MS]
    if cause in FOR_OTHERS:
        kept.append((now_ms, for_job or ""))
    decision = replaced(
        old,
        phase=Phase.STOPPING,
        stop=Stop(cause, now_ms, deadline_ms, for_job),
        stops=old.stops + 1,
        stopped_ms=tuple(at for at, _ in kept),
        stopped_for=tuple(name for _, name in kept),
    )
    return decision, [_stop_event(job, decision, now_ms)]


def redirected(job: Job, cause: StopCause, for_job: str | None, now_ms: int, deadline_ms: int | None = None) -> Moved:
    """A stop under way goes on for another cause, for another job, or with an earlier deadline."""
    old = job.decision
    assert old.stop is not None
    deadline = old.stop.deadline_ms if deadline_ms is None else deadline_ms
    decision = replaced(old, stop=replaced(old.stop, cause=cause, for_job=for_job, deadline_ms=deadline))
    return decision, [_stop_event(job, decision, now_ms)]


def _stop_event(job: Job, decision: JobDecision, now_ms: int, **more: Any) -> Event:
    stop = decision.stop
    assert stop is not None
    detail = {"cause": stop.cause.value, "for": stop.for_job, "deadline_ms": stop.deadline_ms}
    return tell(EventKind.STOP, job, decision, now_ms, **detail, **more)


def cut(job: Job, cause: StopCause, now_ms: int, for_job: str | None = None, **detail: Any) -> Moved:
    """A stop without handshake: nothing is left to save, or nobody to save it. The release has to follow at once.
    ``detail`` is told with the stop."""
    old = job.decision
    counted = 1 if old.phase is Phase.RUNNING else 0
    decision = replaced(old, stop=Stop(cause, now_ms, None, for_job), stops=old.stops + counted)
    return decision, [_stop_event(job, decision, now_ms, **detail)]


def work_done_ms(job: Job, now_ms: int) -> int:
    """Useful work at ``now_ms``, over all attempts. It stands still while a stop's checkpoint is taken."""
    decision = job.decision
    if decision.started_ms is None:
        return decision.banked_ms
    until = now_ms
    if decision.phase is Phase.STOPPING and decision.stop is not None and job.spec.checkpoint is not None:
        until = decision.stop.asked_ms
    return decision.banked_ms + max(0, until - decision.started_ms)


def on_loss(job: Job, cause: StopCause) -> OnLoss:
    """What its owner wants to become of a job whose attempt ended for ``cause``."""
    if cause is StopCause.NODE_FAILURE:
        return job.spec.on_node_failure
    if cause in (StopCause.RANK_FAILURE, StopCause.START_TIMEOUT):
        return OnLoss.RESUME
    return job.spec.on_preemption


def lost_if_stopped_ms(job: Job, cause: StopCause, policy: Policy, now_ms: int) -> int:
    """Useful work, in milliseconds a GPU, that a job loses by a planned stop now: all of it, unless its checkpoint is
    done within the grace."""
    done = work_done_ms(job, now_ms)
    if on_loss(job, cause) is OnLoss.RESTART:
        return done
    saves = job.spec.checkpoint
    if saves is not None and saves.takes_ms <= policy.grace_ms and job.phase is not Phase.STARTING:
        return 0
    return done - min(done, job.decision.saved_work_ms)


def returned(job: Job, decision: JobDecision, now_ms: int, cause: StopCause | None = None) -> Moved:
    """The attempt is over and its GPUs are free: the job waits for its next attempt, or ends, as its cause demands.

    ``decision`` is the last one of the attempt, with the stop that ended it; ``cause`` replaces that stop's own.
    """
    assert decision.stop is not None
    cause = cause or decision.stop.cause
    done = work_done_ms(job, now_ms)
    wish = on_loss(job, cause)
    kept = 0 if wish is OnLoss.RESTART else min(decision.saved_work_ms, done)
    manifest = decision.manifest if kept else ""
    decision = replaced(decision, lost_ms=decision.lost_ms + done - kept, saved_work_ms=kept, manifest=manifest)
    if cause is StopCause.CANCEL:
        return ended(job, decision, Phase.CANCELLED, now_ms)
    if cause is StopCause.TIME_LIMIT or wish is OnLoss.FAIL:
        return ended(job, decision, Phase.FAILED, now_ms)
    return _freed(job, decision, Phase.PENDING, now_ms)


def ended(job: Job, decision: JobDecision, phase: Phase, now_ms: int) -> Moved:
    """The job is over. What it held is free."""
    over = replaced(decision, phase=phase, ended_ms=now_ms, reason=None, not_before_ms=0)
    end = tell(EventKind.END, job, over, now_ms, state=phase.value)
    if not decision.allocation:
        return over, [end]
    over, events = _freed(job, over, phase, now_ms)
    return over, [end, *events]


def _freed(job: Job, decision: JobDecision, phase: Phase, now_ms: int) -> Moved:
    """The event tells what this attempt lost, in milliseconds of useful work of each of its GPUs."""
    gpus = indices(decision.allocation)
    decision = replaced(
        decision,
        phase=phase,
        allocation=(),
        gpu_type="",
        bound_ms=None,
        started_ms=None,
        deadline_ms=None,
        eligible_ms=now_ms,
        reason=None,
    )
    lost_ms = decision.lost_ms - job.decision.lost_ms
    return decision, [tell(EventKind.RELEASE, job, decision, now_ms, gpus=gpus, lost_ms=lost_ms)]


def backed_off(decision: JobDecision, times: int, policy: Policy, now_ms: int) -> JobDecision:
    """Not to be tried again before a pause that doubles with each of ``times`` failures."""
    pause = min(policy.backoff_ms << min(times - 1, 16), LONGEST_BACKOFF_MS)
    return replaced(decision, not_before_ms=now_ms + pause)


def waits(job: Job, reason: Reason, now_ms: int) -> Event:
    detail = {"reason": reason.value, "phase": Phase.PENDING.value}
    return Event(EventKind.REASON, now_ms, job.id, None, job.decision.attempt, detail)
