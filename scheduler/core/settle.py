"""Step 1 of a plan: take in what agents reported and what time brought, job by job.

Only jobs of which something changed, or whose time has come, are looked at.
"""

from __future__ import annotations

from scheduler.core import attempts, health
from scheduler.core.checkpoints import fallen_back
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.observe import Sight, look
from scheduler.core.records import replaced
from scheduler.core.types import TERMINAL, Event, EventKind, JobDecision, Phase, Reason, StopCause

KEPT_BACK = frozenset({Reason.HELD_BY_USER, Reason.DEPENDENCY, Reason.BACKOFF})
"""The reasons of jobs that were not tried at all."""


def settle(draft: Draft) -> None:
    """Look at every node and job about which something may be due."""
    health.settle(draft)
    snapshot = draft.snapshot
    seen: set[str] = set()
    while fresh := snapshot.work.jobs - seen:
        seen |= fresh
        for job in snapshot.pick(fresh):
            _settle_job(draft, job)


def _settle_job(draft: Draft, job: Job) -> None:
    if (moved := fallen_back(job, draft.now_ms)) is not None:
        draft.decide(job, *moved)
    match job.phase:
        case Phase.PENDING:
            _pending(draft, job)
        case Phase.STARTING:
            _starting(draft, job, look(draft.snapshot, job))
        case Phase.RUNNING:
            _running(draft, job, look(draft.snapshot, job))
        case Phase.STOPPING:
            _stopping(draft, job, look(draft.snapshot, job))


def _pending(draft: Draft, job: Job) -> None:
    if job.intent.cancel:
        draft.decide(job, *attempts.ended(job, job.decision, Phase.CANCELLED, draft.now_ms))
        return
    if not job.spec.after:
        _eligible(draft, job)
        return
    met = set(job.decision.met)
    for name in job.spec.after:
        other = draft.snapshot.jobs.get(name)
        if other is None or name in met or other.phase not in TERMINAL:
            continue
        if other.phase is not Phase.SUCCEEDED:
            draft.decide(job, *attempts.ended(job, job.decision, Phase.CANCELLED, draft.now_ms))
            return
        met.add(name)
    if len(met) > len(job.decision.met):
        draft.decide(job, replaced(job.decision, met=tuple(sorted(met))), ())
    _eligible(draft, job)


def _eligible(draft: Draft, job: Job) -> None:
    """Note when a job that would wait for a tighter domain may be tried again: its patience counts from then."""
    decision = job.decision
    if job.spec.topology_wait_ms and job.parked is None and decision.reason in KEPT_BACK:
        draft.decide(job, replaced(decision, eligible_ms=draft.now_ms, reason=None), ())


def _starting(draft: Draft, job: Job, sight: Sight) -> None:
    now = draft.now_ms
    if _failed(draft, job, job.decision, sight, []):
        return
    if job.intent.cancel:
        give_up(draft, job, StopCause.CANCEL)
    elif cause := _leaving(draft, job):
        give_up(draft, job, cause)
    elif sight.ready:
        draft.decide(job, *attempts.started(job, now, sight.port))
    elif job.decision.deadline_ms is not None and now >= job.decision.deadline_ms:
        _start_timeout(draft, job, sight)


def _running(draft: Draft, job: Job, sight: Sight) -> None:
    now = draft.now_ms
    decision, events = _newer_checkpoint(draft, job, sight)
    if sight.done:
        _succeeded(draft, job, decision, sight, events)
    elif _failed(draft, job, decision, sight, events):
        return
    else:
        if events or decision.failing_until_ms:
            draft.decide(job, replaced(decision, failing_until_ms=0), events)
        if job.intent.cancel:
            ask(draft, job, StopCause.CANCEL)
        elif now >= planned_end_ms(job.spec, decision):
            ask(draft, job, StopCause.TIME_LIMIT)
        elif cause := _leaving(draft, job):
            ask(draft, job, cause)
        elif _should_save(draft, job):
            draft.decide(job, *attempts.told_to_save(job, now))


def _should_save(draft: Draft, job: Job) -> bool:
    """Whether something has come up over one of its hosts since the gang was last asked to save."""
    if not draft.snapshot.hinted or job.spec.checkpoint is None:
        return False
    decisions = (draft.snapshot.node(part.node).decision for part in job.decision.allocation)
    return any(one is not None and one.hinted_ms > job.decision.save_ms for one in decisions)


def _stopping(draft: Draft, job: Job, sight: Sight) -> None:
    now = draft.now_ms
    decision, events = _newer_checkpoint(draft, job, sight)
    stop = decision.stop
    assert stop is not None
    if sight.done:
        _succeeded(draft, job, decision, sight, events)
        return
    if job.intent.cancel and stop.cause is not StopCause.CANCEL:
        if events:
            draft.decide(job, decision, events)
        # Nobody may have decided for a while: what is told now does not end in the past.
        until = None if stop.deadline_ms is None else max(stop.deadline_ms, now)
        draft.decide(job, *attempts.redirected(job, StopCause.CANCEL, stop.for_job, now, until))
        decision, events = job.decision, []
        stop = decision.stop
        assert stop is not None
    if sight.lost and _lost_while_stopping(draft, job, decision, sight, events):
        return
    if not sight.living:
        _return(draft, job, decision, _exits(job, decision, sight, events, now))
    elif sight.acknowledged and not stop.saved and not stop.over:
        _acknowledged(draft, job, decision, sight, events)
    elif stop.deadline_ms is not None and now >= stop.deadline_ms and not stop.over and not stop.saved:
        over = replaced(decision, stop=replaced(stop, over=True), deadline_ms=now + draft.policy.kill_timeout_ms)
        draft.decide(job, over, events)
    elif decision.deadline_ms is not None and now >= decision.deadline_ms and (stop.saved or stop.over):
        for name in sight.living:
            health.fence(draft, name, f"ranks of {job.id} did not end")
        _return(draft, job, decision, events)
    elif events:
        draft.decide(job, decision, events)


def _newer_checkpoint(draft: Draft, job: Job, sight: Sight) -> attempts.Moved:
    work = sight.saved_work_ms
    if work is None or work <= job.decision.saved_work_ms or _known(job.decision, sight):
        return job.decision, []
    return attempts.saved(job, job.decision, sight, work, draft.now_ms)


def _known(decision: JobDecision, sight: Sight) -> bool:
    """Whether the checkpoint that is reported has been told of: hosts differ in when exactly they saw it complete."""
    return sight.manifest != "" and sight.manifest == decision.manifest


def _acknowledged(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> None:
    """Every node has saved: the ranks may end now."""
    stop = decision.stop
    assert stop is not None
    if not events and sight.saved_work_ms is not None and not _known(job.decision, sight):
        work_ms = max(sight.saved_work_ms, decision.saved_work_ms)
        decision, events = attempts.saved(job, decision, sight, work_ms, draft.now_ms)
    until = draft.now_ms if stop.deadline_ms is None else max(draft.now_ms, stop.deadline_ms)
    decision = replaced(decision, stop=replaced(stop, saved=True), deadline_ms=until + draft.policy.kill_timeout_ms)
    draft.decide(job, decision, events)


def _exits(job: Job, decision: JobDecision, sight: Sight, events: list[Event], now_ms: int) -> list[Event]:
    return [
        *events,
        *(attempts.tell(EventKind.EXIT, job, decision, now_ms, rank=r, code=c) for r, c in sorted(sight.exits)),
    ]


def _succeeded(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> None:
    told = _exits(job, decision, sight, events, draft.now_ms)
    over, more = attempts.ended(job, decision, Phase.SUCCEEDED, draft.now_ms)
    draft.decide(job, over, [*told, *more])


def _return(draft: Draft, job: Job, decision: JobDecision, events: list[Event]) -> None:
    after, more = attempts.returned(job, decision, draft.now_ms)
    draft.decide(job, after, [*events, *more])


def _failed(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> bool:
    """Free a gang that lost a rank, whole. Whether it had to be."""
    now = draft.now_ms
    if sight.failed is not None and _awaits_reason(draft, job, decision, sight, events):
        return True
    if sight.lost or (sight.silent and decision.failing_until_ms and sight.failed is not None):
        cutting, more = attempts.cut(job, StopCause.NODE_FAILURE, now)
        decision = replaced(decision, stop=cutting.stop, stops=cutting.stops)
        after, rest = attempts.returned(job, decision, now)
        draft.decide(job, after, [*events, *more, *rest])
        return True
    if sight.failed is not None:
        _rank_failure(draft, job, decision, sight, events)
        return True
    return False


def _awaits_reason(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> bool:
    """Whether it is too early to say whose fault a rank's failure is: one of the gang's other hosts may be lost."""
    wait_ms = draft.policy.failure_confirm_ms
    if sight.lost or not wait_ms or len(decision.allocation) < 2 or decision.phase is not Phase.RUNNING:
        return False
    if decision.failing_until_ms:
        if events:
            draft.decide(job, decision, events)
        return draft.now_ms < decision.failing_until_ms
    draft.decide(job, replaced(decision, failing_until_ms=draft.now_ms + wait_ms), events)
    return True


def _rank_failure(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> None:
    assert sight.failed is not None
    now = draft.now_ms
    _, _, node = sight.failed
    told = _exits(job, decision, sight, events, now)
    cutting, more = attempts.cut(job, StopCause.RANK_FAILURE, now)
    failures = decision.failures + 1
    before = decision.failed_on
    decision = replaced(
        decision,
        stop=cutting.stop,
        stops=cutting.stops,
        failures=failures,
        failed_on=_failed_on(before, [node]),
    )
    after, rest = attempts.returned(job, decision, now)
    if failures > job.spec.max_restarts:
        lost = replaced(decision, lost_ms=after.lost_ms)
        after, rest = attempts.ended(job, lost, Phase.FAILED, now)
    else:
        after = attempts.backed_off(after, failures, draft.policy, now)
    draft.decide(job, after, [*told, *more, *rest])
    health.blame(draft, node, job, before)


MANY_NODES = 8
"""Nodes on which a job failed that are remembered with it."""


def _failed_on(before: tuple[str, ...], nodes: list[str]) -> tuple[str, ...]:
    return (*(name for name in before if name not in nodes), *nodes)[-MANY_NODES:]


def _start_timeout(draft: Draft, job: Job, sight: Sight) -> None:
    now = draft.now_ms
    late = sorted(sight.unready)
    cutting, more = attempts.cut(
        job, StopCause.START_TIMEOUT, now, unready={name: sight.unready[name] for name in late[:MANY_NODES]}
    )
    before = job.decision.failed_on
    cutting = replaced(cutting, avoid=tuple(late), failed_on=_failed_on(before, late))
    after, rest = attempts.returned(job, cutting, now)
    after = attempts.backed_off(after, job.decision.attempt, draft.policy, now)
    draft.decide(job, after, [*more, *rest])
    for name in late:
        health.blame(draft, name, job, before)


def _lost_while_stopping(draft: Draft, job: Job, decision: JobDecision, sight: Sight, events: list[Event]) -> bool:
    """A node went away during a stop. Saved, or with the grace over, the stop goes on where ranks live; else there is
    nothing left to wait for: the loss replaces the stop, though a job that was to end for good still does."""
    stop, now = decision.stop, draft.now_ms
    assert stop is not None
    if stop.saved or stop.over or (stop.deadline_ms is not None and now >= stop.deadline_ms):
        if sight.living:
            return False
        _return(draft, job, decision, events)
        return True
    cutting, more = attempts.cut(job, StopCause.NODE_FAILURE, now)
    final = stop.cause if stop.cause in attempts.FINAL else StopCause.NODE_FAILURE
    after, rest = attempts.returned(job, replaced(decision, stop=cutting.stop), now, final)
    draft.decide(job, after, [*events, *more, *rest])
    return True


def _leaving(draft: Draft, job: Job) -> StopCause | None:
    """Why the gang has to leave its nodes, None if it may stay."""
    cause = None
    for part in job.decision.allocation:
        node = draft.snapshot.node(part.node)
        if node.report is not None and node.report.gone_at_ms is not None:
            return StopCause.SPOT
        if node.draining(draft.now_ms):
            cause = StopCause.DRAIN
    return cause


def ask(draft: Draft, job: Job, cause: StopCause, for_job: str | None = None) -> None:
    """Begin the stop of a running attempt. A spot host's end may come before the end of the grace."""
    deadline = draft.now_ms + draft.policy.grace_ms
    if cause is StopCause.SPOT:
        for part in job.decision.allocation:
            report = draft.snapshot.node(part.node).report
            if report is not None and report.gone_at_ms is not None:
                deadline = min(deadline, max(report.gone_at_ms, draft.now_ms))
    draft.decide(job, *attempts.asked(job, cause, deadline, for_job, draft.now_ms))


def give_up(draft: Draft, job: Job, cause: StopCause, for_job: str | None = None) -> None:
    """End a starting attempt: nothing runs yet, so it is released at once."""
    decision, events = attempts.cut(job, cause, draft.now_ms, for_job)
    after, more = attempts.returned(job, decision, draft.now_ms)
    draft.decide(job, after, [*events, *more])
