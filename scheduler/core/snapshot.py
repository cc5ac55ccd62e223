"""The cluster as the planner sees it, kept warm and fed record by record.

All indexes (free GPUs by rack, use by team, waiting jobs by shape, deadlines) are kept with each record, so that a plan
costs about what changed. ``plan()`` tries its decisions out on the snapshot itself and takes them back at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from scheduler.core.arrays import Arrays
from scheduler.core.job import NEW, Job, mask_of
from scheduler.core.layout import Layouts
from scheduler.core.ledger import Ledger
from scheduler.core.lifecycle import due_ms, remaining_ms, same_wait
from scheduler.core.patience import Patience
from scheduler.core.quota import CPU, MEMORY, Quota
from scheduler.core.rows import Rows
from scheduler.core.spent import Spent
from scheduler.core.topology import Node, Topology, same_inventory
from scheduler.core.types import (
    HOLDING,
    TERMINAL,
    Health,
    JobDecision,
    JobIntent,
    NodeDecision,
    NodeIntent,
    NodeReport,
    Phase,
    QuotaTree,
    Reason,
    RepairIntent,
    ReservationIntent,
    Reservations,
    Usage,
)
from scheduler.core.usage import Fading
from scheduler.core.waiting import Waiting, Weights, age_key
from scheduler.core.work import Work


class Snapshot:
    """See docs/design/001. ``jobs`` and ``nodes`` hold what has an intent; treat both as read-only."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.topology = Topology()
        self.waiting = Waiting()
        self.reservations = Reservations()
        self.bookings: dict[str, ReservationIntent] = {}
        self.now_ms = 0
        self.planned_ms = -1
        self.work = Work()
        self.rows = Rows()
        self.ledger = Ledger(self.topology, self.rows)
        self.layouts = Layouts()
        self.replan: set[str] = set()
        self.replanned_ms: dict[str, int] = {}
        self.stopping: set[str] = set()
        self.evict_again_ms: int | None = None
        self.quiet_until_ms = 0
        self.reviews = 0
        self.holds_reviewed = -1
        self.repaired_ms = 0
        self.repairs = RepairIntent()
        self.moves = Spent()
        self.parked: dict[str, Job] = {}
        self.stopping_for: dict[str, set[str]] = {}
        self.dependents: dict[str, set[str]] = {}
        self.windowed: set[str] = set()
        self.unwell: set[str] = set()
        self.hinted: set[str] = set()
        self.timers: list[tuple[int, str]] = []
        self.patience = Patience()
        self.arrays = Arrays()
        self.usage = Usage()
        self._fades = False
        self._all_jobs: dict[str, Job] = {}

    @property
    def quota(self) -> Quota:
        return self.ledger.quota

    @property
    def fading(self) -> Fading:
        """The clock of recent use; a picture that follows another snapshot takes over its clock."""
        return self.ledger.fading

    @fading.setter
    def fading(self, fading: Fading) -> None:
        self.ledger.fading = fading

    @property
    def holding(self) -> dict[str, Job]:
        """The jobs that hold GPUs."""
        return self.ledger.holding

    # --- jobs ---------------------------------------------------------------------------------------------------

    def set_job_intent(self, job: str, intent: JobIntent | None) -> None:
        """Take in what people want of a job, or that it has left the cluster."""
        record = self._all_jobs.get(job)
        if record is None:
            if intent is None:
                return
            record = self._all_jobs[job] = Job(job)
        if record.wished:
            if record.held and intent is None:
                self.work.gain_all()
            self._detach(record, record.decision.bound_ms or 0)
            for other in record.spec.after:
                self.dependents.get(other, set()).discard(job)
            self.arrays.leave(record)
        if intent is None:
            record.unwish()
            self._forget(job)
            return
        record.wish(intent)
        self.jobs[job] = record
        record.shape = record.key = None
        for other in intent.spec.after:
            self.dependents.setdefault(other, set()).add(job)
        self.arrays.enter(record)
        self._attach(record, record.decision.bound_ms or 0)

    def _forget(self, job: str) -> None:
        self.patience.forget(job)
        self._all_jobs.pop(job, None)
        self.jobs.pop(job, None)
        self.work.jobs.discard(job)

    def set_job_decision(self, job: str, decision: JobDecision | None) -> None:
        """Take in what was decided about a job. Nothing of a job remains once its last decision is taken away."""
        record = self._all_jobs.get(job)
        if decision is None:
            if record is not None and record.decision is not NEW:
                if record.wished:
                    self._detach(record, self.now_ms)
                    self.work.gain_all()
                self._forget(job)
            return
        if record is None:
            record = self._all_jobs[job] = Job(job)
        if not record.wished:
            record.decision = decision
            return
        known = self.work.expects(decision)
        gain = self.move(record, decision)
        if gain and not known:
            self.work.gained.add(gain)

    def move(self, job: Job, decision: JobDecision) -> str | None:
        """Put a decision in force in every index. Answers the GPU type of which GPUs came free, None if none did."""
        old = job.decision
        if decision is old:
            return None
        if decision.phase in HOLDING and old.phase in HOLDING and decision.allocation == job.held:
            self._renew(job, decision)
            return None
        if job.group is not None and same_wait(old, decision):
            job.group.restate(old.reason, decision.reason)
            job.decision = decision
            return None
        self._detach(job, self.now_ms)
        freed = old.gpu_type if old.phase in HOLDING else None
        job.decision = decision
        self._attach(job, decision.bound_ms or 0)
        if decision.phase in TERMINAL:
            self.work.jobs.update(self.dependents.get(job.id, ()))
        return freed

    def take_back(self, job: Job, decision: JobDecision) -> None:
        """Undo a ``move`` made since the last clock change: ``decision`` is the one that was in force before it."""
        now_holds = job.decision.phase in HOLDING
        if now_holds and decision.phase in HOLDING and job.held == decision.allocation:
            self._renew(job, decision)
            return
        if job.group is not None and same_wait(job.decision, decision):
            job.group.restate(job.decision.reason, decision.reason)
            job.decision = decision
            return
        self._detach(job, job.decision.bound_ms or 0)
        job.decision = decision
        self._attach(job, self.now_ms if not now_holds else decision.bound_ms or 0)

    def _renew(self, job: Job, decision: JobDecision) -> None:
        """A new decision about a gang that keeps its GPUs."""
        self._unmark_stop(job)
        self.rows.stale.update(self.ledger.nodes[part.node] for part in job.held)
        job.decision = decision
        self._mark_stop(job)
        self.work.jobs.add(job.id)
        self._set_timer(job)

    def _attach(self, job: Job, since_ms: int) -> None:
        decision = job.decision
        self.work.jobs.add(job.id)
        self.arrays.stir(job)
        if decision.phase in HOLDING:
            self.ledger.enter(job, since_ms)
            self._mark_stop(job)
            self._set_timer(job)
        elif decision.phase is Phase.PENDING:
            self._enqueue(job)

    def _detach(self, job: Job, until_ms: int) -> None:
        if job.group is not None:
            assert job.key is not None
            self.waiting.remove(job.group, job.key, job.decision.reason)
            job.group = None
        elif job.parked is not None:
            job.parked = None
            del self.parked[job.id]
        elif job.leaf is not None:
            self._unmark_stop(job)
            self.ledger.strike(job, until_ms)

    def _mark_stop(self, job: Job) -> None:
        stop = job.decision.stop
        if job.decision.phase is not Phase.STOPPING or stop is None:
            return
        self.stopping.add(job.id)
        if stop.for_job is not None:
            self.stopping_for.setdefault(stop.for_job, set()).add(job.id)

    def _unmark_stop(self, job: Job) -> None:
        stop = job.decision.stop
        if job.decision.phase is not Phase.STOPPING or stop is None:
            return
        self.stopping.discard(job.id)
        if stop.for_job is not None:
            victims = self.stopping_for[stop.for_job]
            victims.discard(job.id)
            if not victims:
                del self.stopping_for[stop.for_job]

    def _set_timer(self, job: Job) -> None:
        due = due_ms(job.spec, job.decision)
        if due is not None:
            heappush(self.timers, (due, job.id))

    # --- who waits ----------------------------------------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        why = self.why_parked(job)
        if why is not None:
            job.parked = why
            self.parked[job.id] = job
            self.work.arrived.add(job.id)
            if why is Reason.BACKOFF:  # only this one ends by time alone
                self._set_timer(job)
            return
        spec = job.spec
        patient = self.patience.binds(spec, job.decision, self.topology, self.now_ms)
        if job.shape is None or job.shape.avoid != job.decision.avoid or job.shape.patient is not patient:
            job.shape = self.waiting.shape(spec, job.decision.avoid, patient)
        if job.key is None:
            job.key = age_key(spec, self.waiting.weights)
        left_ms = remaining_ms(spec, job.decision)
        job.group = self.waiting.add(spec, job.shape, job.key, left_ms, job.decision.reason)
        self.work.arrived.add(job.id)

    def why_parked(self, job: Job) -> Reason | None:
        """Why a pending job may not be tried now whatever is free; None if it may."""
        return self._kept_back(job) or (None if self.arrays.admits(job) else Reason.DEPENDENCY)

    def _kept_back(self, job: Job) -> Reason | None:
        """Why it may not be tried, the throttle of its array apart."""
        intent = job.intent
        if intent.hold or intent.cancel:
            return Reason.HELD_BY_USER
        if intent.spec.after and not set(intent.spec.after) <= set(job.decision.met):
            return Reason.DEPENDENCY
        if job.decision.not_before_ms > self.now_ms:
            return Reason.BACKOFF
        return None

    def weigh(self, weights: Weights) -> None:
        """Order waiting jobs by these weights from now on."""
        if weights == self.waiting.weights:
            return
        self.waiting.weights = weights
        for job in self.jobs.values():
            queued = job.group is not None
            if queued:
                self._detach(job, self.now_ms)
            job.key = None
            if queued:
                self._attach(job, 0)

    # --- time ---------------------------------------------------------------------------------------------------

    def tell_time(self, now_ms: int) -> None:
        """Move the clock: jobs whose deadline has come are looked at again, those whose back-off is over may start."""
        self.now_ms = now_ms
        while self.timers and self.timers[0][0] <= now_ms:
            _, name = heappop(self.timers)
            job = self.jobs.get(name)
            if job is None:
                continue
            self.work.jobs.add(name)
            if job.parked is not None:
                self._ask_anew(job)
        for job in self.arrays.review(lambda job: self._kept_back(job) is None) if self.arrays.stirred else ():
            self._ask_anew(job)
        for job in self.pick(self.patience.due(now_ms)):
            self._ask_anew(job)
        self.arrays.stirred.clear()

    def _ask_anew(self, job: Job) -> None:
        """Whether a waiting job may be tried, and for what, may have changed by time."""
        if job.group is not None or job.parked is not None:
            self._detach(job, self.now_ms)
            self._attach(job, 0)

    def next_timer(self) -> int | None:
        """The next moment at which a job's time comes; None if none does."""
        while self.timers:
            due, name = self.timers[0]
            job = self.jobs.get(name)
            if job is not None and due_ms(job.spec, job.decision) == due:
                break
            heappop(self.timers)
        patience = self.patience.next_ms()
        times = [*([self.timers[0][0]] if self.timers else ()), *([patience] if patience is not None else ())]
        return min(times, default=None)

    def fade(self, half_life_ms: int) -> None:
        """Use this half-life for recent use. What is over is counted as it was written down last, what runs from its
        bind on."""
        if half_life_ms == self.fading.half_life_ms and self._fades:
            return
        self._fades = True
        self.ledger.fade(Fading(half_life_ms, self.now_ms))
        self.ledger.resume(self.usage)

    # --- nodes --------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """The node of that name, registered or not: decisions may arrive before the inventory."""
        return self.ledger.node(name)

    def set_node_intent(self, name: str, intent: NodeIntent | None) -> None:
        """Take in a node's inventory and what on-call wants of it; None: it is no part of the fleet any more."""
        node = self.node(name)
        old = node.intent
        node.intent = intent
        if old is None or intent is None or not same_inventory(old, intent):
            self.rows.forget()
            self.layouts.forget()
            self.patience.stale = True
            if old is not None:
                self.topology.remove(node, old)
                node.cpus_free -= old.cpus
                node.memory_free -= old.memory_gb
                node.scratch_free -= old.scratch_gb
                del self.nodes[name]
            if intent is not None:
                self.topology.add(node, intent)
                node.cpus_free += intent.cpus
                node.memory_free += intent.memory_gb
                node.scratch_free += intent.scratch_gb
                self.nodes[name] = node
        if intent is not None and intent.maintenance:
            self.windowed.add(name)
        else:
            self.windowed.discard(name)
        self._review(node)

    def set_node_decision(self, name: str, decision: NodeDecision | None) -> None:
        node = self.node(name)
        node.decision = decision
        self._review(node, known=decision is not None and self.work.expects(decision))

    def set_node_report(self, name: str, report: NodeReport | None) -> None:
        """Take in what the node's agent reported last."""
        node = self.node(name)
        before, old = node.gangs, node.report
        node.report = report
        (self.hinted.add if node.hinted else self.hinted.discard)(name)
        node.gangs = {gang.job: gang for gang in report.gangs} if report is not None else {}
        faulty = mask_of(report.faulty_gpus) if report is not None else 0
        if faulty != node.faulty:
            node.faulty = faulty
            self.reviews += 1
        self._review(node, reported=True)
        for job, gang in node.gangs.items():
            if before.get(job) != gang:
                self.work.jobs.add(job)
        self.work.jobs.update(before.keys() - node.gangs.keys())
        if _coming(old) != _coming(report):
            self.work.jobs.update(node.jobs)  # their host will be taken away, or it stays after all

    def set_node_alive(self, name: str, alive: bool) -> None:
        node = self.node(name)
        node.alive = alive
        self._review(node)

    def _review(self, node: Node, known: bool = False, reported: bool = False) -> None:
        """Refile a node whose records changed, and have it and, unless only its report changed, its jobs looked at."""
        was = node.bucket
        self.rows.stale.add(node)
        was_open, node.open = node.open, node.takes_work()
        if node.open != was_open:
            self.reviews += 1
        self.topology.refile(node)
        self.work.nodes.add(node.name)
        if not node.alive or (node.decision is not None and _may_turn(node.decision)):
            self.unwell.add(node.name)
        else:
            self.unwell.discard(node.name)
        if not reported:
            self.work.jobs.update(node.jobs)
        if node.bucket > was and not known and node.intent is not None:
            self.work.gained.add(node.intent.gpu_type)

    # --- shares and holds ---------------------------------------------------------------------------------------

    def set_quota(self, tree: QuotaTree | None) -> None:
        """Put another quota tree in force; what runs is charged to it anew. None: every team exists, with share 1."""
        self.ledger.replant(tree)
        self.work.gain_all()

    def set_usage(self, usage: Usage | None) -> None:
        """Take in what was written down of the use of what is over."""
        self.usage = usage if usage is not None else Usage()
        self.ledger.resume(self.usage)

    def set_reservations(self, reservations: Reservations | None) -> None:
        """Take in the holds in force and planned."""
        new = reservations if reservations is not None else Reservations()
        if not self.work.expects(new):
            self.work.gain_all()
        self.reservations = new
        self.layouts.keep(new.held)

    def set_reservation_intent(self, name: str, intent: ReservationIntent | None) -> None:
        """Take in a reservation that people want ahead of time, or that they no longer do."""
        if intent is None:
            self.bookings.pop(name, None)
        else:
            self.bookings[name] = intent
        self.work.gain_all()

    def set_repairs(self, intent: RepairIntent | None) -> None:
        """Take in the moves that on-call agreed to."""
        self.repairs = intent if intent is not None else RepairIntent()
        self.work.gain_all()

    def capacity(self) -> dict[str, int]:
        """What the fleet has of each resource that a share can be of."""
        return {**self.topology.total, CPU: self.topology.cpus, MEMORY: self.topology.memory_gb}

    def pick(self, names: Iterable[str]) -> list[Job]:
        """Those of the named jobs that are here, in the order of their names."""
        return [self.jobs[name] for name in sorted(names) if name in self.jobs]


def _coming(report: NodeReport | None) -> tuple[object, ...] | None:
    """What an agent says that its jobs have to heed beside their own ranks: the end of the host, and faults."""
    return (report.gone_at_ms, report.notices, report.faults) if report is not None else None


def _may_turn(decision: NodeDecision) -> bool:
    """Whether time alone may call for another decision about a node that is heard."""
    return decision.health is not Health.READY or bool(decision.probation_ms) or decision.quarantine is not None
