"""When every waiting job may be expected to start: the real ``plan()``, rolled forward in time.

Running jobs are taken to use up their limits, waiting ones to start as planned, nobody to submit or fail any more. So a
start told here is one by the limits: jobs that end early bring it forward, newcomers of a higher class push it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from scheduler.core import attempts
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.plan import plan
from scheduler.core.scratch import NodeRecords, Records, Scratch
from scheduler.core.types import HOLDING, JobChange, NodeChange, NodeReport, Phase, Policy, StopCause

DAY_MS = 86_400_000
HORIZON_MS = 7 * DAY_MS
STEPS = 400
COARSE = 100
"""What happens within a hundredth of the time looked ahead is taken to happen at its end."""
FINEST_MS = 15_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """``starts`` maps waiting jobs to when they start; a job that it does not name is not known to start before
    ``until_ms``, the time up to which was looked ahead."""

    made_ms: int
    until_ms: int
    starts: dict[str, int]


def forecast(
    seen: Records, policy: Policy, *, steps: int = STEPS, go_on: Callable[[], bool] = lambda: True
) -> Forecast:
    """Roll the plan forward from these records.

    Args:
        steps: how many plans to make at most.
        go_on: asked before each plan; False ends the forecast where it is, as a limit on what it may cost.
    """
    roll = _Roll(seen, policy)
    for _ in range(steps):
        if roll.now_ms > seen.now_ms + HORIZON_MS or not roll.waits() or not go_on() or not roll.step():
            break
    return Forecast(seen.now_ms, roll.now_ms, roll.starts)


class _Roll:
    """The cluster on its way ahead. ``now_ms`` is the time of the next plan."""

    def __init__(self, seen: Records, policy: Policy) -> None:
        self.snapshot = Scratch().follow(replace(seen, nodes={n: _unheard(r) for n, r in seen.nodes.items()}))
        self.policy = replace(policy, repair=False, reason_every_ms=HORIZON_MS)
        self.begun_ms = self.now_ms = seen.now_ms
        self.starts: dict[str, int] = {}
        self._asked = {job.id for job in self.snapshot.jobs.values() if job.phase is Phase.PENDING}
        self._wake_ms: int | None = None
        self.snapshot.work.gain_all()
        self._ends = [(self._end_of(job), name) for name, job in self.snapshot.holding.items()]
        heapify(self._ends)

    def waits(self) -> bool:
        """Whether a job still waits for which something could be told."""
        return len(self.starts) < len(self._asked)

    def step(self) -> bool:
        """Let what has ended by now go, plan, and go on to when something happens next; False: nothing will."""
        self._let_go()
        self._look_away()
        made = plan(self.snapshot, self.policy, self.now_ms, 0)
        for change in made.changes:
            if isinstance(change, JobChange):
                self._take(change)
            elif isinstance(change, NodeChange):
                self.snapshot.set_node_decision(change.node, change.decision)
            else:
                self.snapshot.set_reservations(change.reservations)
        return self._go_on(made.wake_ms)

    def _look_away(self) -> None:
        """Have the plan look at waiting jobs alone: it would take gangs that no agent reports for lost."""
        snapshot = self.snapshot
        snapshot.tell_time(self.now_ms)
        found = snapshot.pick(snapshot.work.jobs)
        snapshot.work.jobs = {job.id for job in found if job.phase is Phase.PENDING}

    def _take(self, change: JobChange) -> None:
        snapshot = self.snapshot
        snapshot.set_job_decision(change.job, change.decision)
        job = snapshot.jobs[change.job]
        if job.phase is Phase.STARTING:
            if job.id in self._asked:
                self.starts.setdefault(job.id, self.now_ms)
            snapshot.set_job_decision(job.id, attempts.started(job, self.now_ms)[0])
        if job.phase in HOLDING:
            heappush(self._ends, (self._end_of(job), job.id))

    def _end_of(self, job: Job) -> int:
        return max(self.now_ms, planned_end_ms(job.spec, job.decision))

    def _let_go(self) -> None:
        """Free what is over: stops come to their end, jobs have used up their limits and count as succeeded."""
        snapshot = self.snapshot
        over = set()
        while self._ends and self._ends[0][0] <= self.now_ms:
            _, name = heappop(self._ends)
            job = snapshot.jobs.get(name)
            if job is None or job.phase not in HOLDING or planned_end_ms(job.spec, job.decision) > self.now_ms:
                continue
            stop = job.decision.stop
            if job.phase is Phase.STOPPING and stop is not None and stop.cause is not StopCause.TIME_LIMIT:
                saved = replace(job.decision, saved_work_ms=self._kept(job))
                decision, _ = attempts.returned(job, saved, self.now_ms)
            else:
                decision, _ = attempts.ended(job, job.decision, Phase.SUCCEEDED, self.now_ms)
            snapshot.set_job_decision(name, decision)
            over.add(name)
        self._forget(name for name in over if snapshot.jobs[name].phase is Phase.SUCCEEDED)

    def _kept(self, job: Job) -> int:
        """The useful work that a stopped job goes on from: all of it where its checkpoint fits the grace."""
        saves = job.spec.checkpoint
        done = attempts.work_done_ms(job, self.now_ms)
        return done if saves is not None and saves.takes_ms <= self.policy.grace_ms else job.decision.saved_work_ms

    def _forget(self, over: Iterable[str]) -> None:
        """Take jobs that ended out, unless somebody waits for them to have succeeded."""
        for name in over:
            if not self.snapshot.dependents.get(name):
                self.snapshot.set_job_intent(name, None)

    def _go_on(self, wake_ms: int | None) -> bool:
        """Move the clock to the next moment that matters, on a grid that gets coarser the further it lies ahead."""
        moments = [at for at in (wake_ms, self._ends[0][0] if self._ends else None) if at is not None]
        if not moments:
            return False
        at = max(min(moments), self.now_ms)
        grid = max(FINEST_MS, (at - self.begun_ms) // COARSE)
        self.now_ms = self.begun_ms + -(-max(1, at - self.begun_ms) // grid) * grid
        return True


def _unheard(records: NodeRecords) -> NodeRecords:
    """A node of which only the broken GPUs and a notice that it will be taken away are known."""
    intent, decision, report, alive = records
    if report is not None:
        report = NodeReport(report.boot_id, (), report.faulty_gpus, report.gone_at_ms)
    return intent, decision, report, alive
