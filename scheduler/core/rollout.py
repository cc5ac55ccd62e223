"""The real plan, rolled forward: who starts when and who is stopped, if every job uses up its limit and nothing fails.

Runs on a snapshot of one's own (see ``scratch``) and leaves it changed. Agents are taken to do at once what they are
told: ranks are ready when their gang is bound, and a stop takes as long as the checkpoint does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from scheduler.core import attempts
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.plan import plan
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    EventKind,
    GangReport,
    JobChange,
    NodeChange,
    NodeReport,
    Phase,
    Plan,
    Policy,
    RankReport,
    RankState,
    StopCause,
)

REASONS_MS = 30 * attempts.DAY_MS
"""Nobody reads why jobs wait meanwhile, so that is not asked anew within any time looked ahead."""
SETTLING = 6
"""Plans at the very beginning that may follow each other at once; later ones are at least a grain apart."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop for somebody else's sake. ``lost_ms`` is useful work of each of its GPUs that no checkpoint holds."""

    job: str
    cause: StopCause
    for_job: str | None
    at_ms: int
    lost_ms: int


@dataclass(slots=True)
class Course:
    """What came of it: job → its first start, and the stops in order. Complete up to ``until_ms``, and no further."""

    starts: dict[str, int] = field(default_factory=dict)
    stops: list[Stopping] = field(default_factory=list)
    until_ms: int = 0
    plans: int = 0


class Rollout:
    """One way forward. Plans are ``grain_ms`` apart at least, and what is due in between happens together; with
    ``coarse`` that grows to one ``coarse``-th of the time looked ahead."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, now_ms: int, grain_ms: int = 30_000, coarse: int | None = None
    ) -> None:
        self._snapshot = snapshot
        self._policy = replace(policy, reason_every_ms=REASONS_MS, repair="off")
        self._begun_ms = self._now_ms = max(now_ms, snapshot.now_ms)
        self._grain_ms = grain_ms
        self._coarse = coarse
        self._due: list[tuple[int, str, int]] = []
        self._gangs: dict[str, dict[str, GangReport]] = {name: {} for name in snapshot.nodes}
        self.course = Course(until_ms=self._now_ms - 1)
        snapshot.tell_time(self._now_ms)
        for job in list(snapshot.holding.values()):
            self._obey(job)
        for name in self._gangs:
            self._report(name)
        snapshot.work.gain_all()
        snapshot.work.jobs.update(snapshot.jobs)

    def run(self, until_ms: int, plans: int, enough: Callable[[], bool] = lambda: False) -> Course:
        """Go on to ``until_ms``, for so many plans, or until ``enough()``, whichever comes first.

        Where nothing more can happen, the course is known for ever: ``until_ms`` is then that of the call.
        """
        course = self.course
        while course.plans < plans and not enough():
            made = plan(self._snapshot, self._policy, self._now_ms, 0)
            course.plans += 1
            self._apply(made)
            after = self._next(made)
            if after is None or after > until_ms:
                course.until_ms = until_ms
                return course
            if after > self._now_ms:
                course.until_ms, self._now_ms = after - 1, after
            self._pass_time()
        return course

    def _next(self, made: Plan) -> int | None:
        """When the next plan is worth making."""
        if made.changes and self.course.plans < SETTLING:
            return self._now_ms
        times = [at for at in (made.wake_ms, self._due[0][0] if self._due else None) if at is not None]
        return max(min(times), self._now_ms + self._apart_ms()) if times else None

    def _apart_ms(self) -> int:
        ahead = self._now_ms - self._begun_ms
        return self._grain_ms if self._coarse is None else max(self._grain_ms, ahead // self._coarse)

    def _apply(self, made: Plan) -> None:
        snapshot = self._snapshot
        for change in made.changes:
            if isinstance(change, JobChange):
                job = snapshot.jobs[change.job]
                self._note(job, change)
                self._unlist(job)
                snapshot.set_job_decision(change.job, change.decision)
                self._obey(job)
            elif isinstance(change, NodeChange):
                snapshot.set_node_decision(change.node, change.decision)
            else:
                snapshot.set_reservations(change.reservations)

    def _note(self, job: Job, change: JobChange) -> None:
        for event in change.events:
            if event.kind is EventKind.STOP and event.detail["cause"] in attempts.FOR_OTHERS:
                cause = StopCause(event.detail["cause"])
                lost = attempts.lost_if_stopped_ms(job, cause, self._policy, self._now_ms)
                self.course.stops.append(Stopping(job.id, cause, event.detail["for"], self._now_ms, lost))
        if change.decision.phase is Phase.STARTING and job.phase is Phase.PENDING:
            self.course.starts.setdefault(job.id, self._now_ms)

    # --- what the agents would do -------------------------------------------------------------------------------

    def _obey(self, job: Job) -> None:
        """Have the gang do what was decided about it, and note when it will have done so."""
        if job.phase is Phase.STARTING:
            self._snapshot.set_job_decision(job.id, attempts.started(job, self._now_ms)[0])
        decision = job.decision
        if job.phase is Phase.RUNNING:
            due = self.ends_ms(job)
        elif job.phase is Phase.STOPPING:
            due = self._saved_ms(job)
        else:
            return
        self._list(job, RankState.RUNNING)
        heappush(self._due, (max(due, self._now_ms), job.id, decision.attempt))

    def ends_ms(self, job: Job) -> int:
        """When a running job is over: here, when its limit is used up."""
        return planned_end_ms(job.spec, job.decision)

    def _saved_ms(self, job: Job) -> int:
        """When the stop under way will be over: the checkpoint is done, or the grace is."""
        stop, saves = job.decision.stop, job.spec.checkpoint
        assert stop is not None
        over = stop.asked_ms if stop.deadline_ms is None else stop.deadline_ms
        return over if saves is None else min(over, stop.asked_ms + saves.takes_ms)

    def _pass_time(self) -> None:
        """Everything that is due by now happens."""
        while self._due and self._due[0][0] <= self._now_ms:
            _, name, attempt = heappop(self._due)
            job = self._snapshot.jobs.get(name)
            if job is None or job.decision.attempt != attempt:
                continue
            if job.phase is Phase.STOPPING and self._saved_ms(job) <= self._now_ms:
                self._save(job)
                self._unlist(job)
            elif job.phase is Phase.RUNNING and self.ends_ms(job) <= self._now_ms:
                self._list(job, RankState.SUCCEEDED)

    def _save(self, job: Job) -> None:
        saves = job.spec.checkpoint
        if saves is not None and saves.takes_ms <= self._policy.grace_ms:
            work = attempts.work_done_ms(job, self._now_ms)
            self._snapshot.set_job_decision(job.id, replace(job.decision, saved_work_ms=work))

    def _list(self, job: Job, state: RankState) -> None:
        gang = GangReport(job.id, job.decision.attempt, (RankReport(0, state),), job.decision.saved_work_ms)
        for part in job.decision.allocation:
            self._gangs.setdefault(part.node, {})[job.id] = gang
            self._report(part.node)

    def _unlist(self, job: Job) -> None:
        for part in job.decision.allocation:
            if self._gangs.get(part.node, {}).pop(job.id, None) is not None:
                self._report(part.node)

    def _report(self, name: str) -> None:
        """A node whose agent is silent stays as it is: that is the planner's to judge."""
        node = self._snapshot.node(name)
        if node.alive:
            gangs = tuple(self._gangs[name].values())
            told = node.report or NodeReport("rolled forward")
            self._snapshot.set_node_report(name, replace(told, gangs=gangs))
