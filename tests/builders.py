"""Small clusters for tests of the decision core: hosts, teams and jobs in a line each, time in seconds.

cluster = Cluster("r1: 4xH100")
cluster.submit("a", gpus=8)
cluster.tick()
assert cluster.phase("a") == "RUNNING"
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scheduler.core import invariants
from scheduler.core.plan import plan
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    HOLDING,
    CheckpointSpec,
    Event,
    GangReport,
    JobChange,
    JobIntent,
    JobSpec,
    NodeChange,
    NodeIntent,
    NodeReport,
    Phase,
    Plan,
    Policy,
    QuotaNode,
    QuotaTree,
    RankReport,
    RankState,
)

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
SAVES = CheckpointSpec(every_ms=30 * MINUTE, takes_ms=20 * SECOND)


def spec(job: str, gpus: int = 8, **wishes: Any) -> JobSpec:
    """A job of team ``ml`` for H100, class P2, with a limit of a day, which can checkpoint."""
    wishes.setdefault("team", "ml")
    wishes.setdefault("gpu_type", "H100")
    wishes.setdefault("priority", 2)
    wishes.setdefault("max_runtime_ms", 24 * HOUR)
    wishes.setdefault("submitted_ms", 0)
    wishes.setdefault("checkpoint", SAVES)
    return JobSpec(id=job, gpus=gpus, **wishes)


def team(name: str, parent: str | None = None, share: str = "1", **fields: Any) -> QuotaNode:
    return QuotaNode(name, parent, Fraction(share), **fields)


class Cluster:
    """A snapshot with agents that do at once what they are told: ranks get ready, save and end within the tick.

    Args:
        racks: lines like ``r1: 4xH100`` or ``az2/r3: 2xA100x4`` (hosts x type x GPUs a host, 8 by default). Hosts are
            called ``r1-1``, ``r1-2`` …
    """

    def __init__(self, *racks: str, quota: list[QuotaNode] | None = None, **policy: Any) -> None:
        self.snapshot = Snapshot()
        self.policy = Policy(**policy)
        self.now_ms = 0
        self.events: list[Event] = []
        self.deaf: set[str] = set()
        for line in racks:
            found = re.fullmatch(r"(?:(\w+)/)?(\w+): (\d+)x(\w+?)(?:x(\d+))?", line)
            assert found is not None, line
            az, rack, hosts, gpu_type, size = found.groups()
            for at in range(1, int(hosts) + 1):
                name = f"{rack}-{at}"
                self.node(NodeIntent(name, az or "az1", rack, gpu_type, int(size or 8)))
        if quota is not None:
            self.snapshot.set_quota(QuotaTree(tuple(quota)))

    def node(self, intent: NodeIntent) -> None:
        self.snapshot.set_node_intent(intent.name, intent)
        self.snapshot.set_node_report(intent.name, NodeReport("boot"))
        self.snapshot.set_node_alive(intent.name, True)

    def submit(self, job: str, gpus: int = 8, **wishes: Any) -> None:
        wishes.setdefault("submitted_ms", self.now_ms)
        self.snapshot.set_job_intent(job, JobIntent(spec(job, gpus, **wishes)))

    def plan(self) -> Plan:
        """A plan that breaks no invariant and leaves the snapshot as it was."""
        self.snapshot.tell_time(self.now_ms)
        before = picture(self.snapshot)
        made = plan(self.snapshot, self.policy, self.now_ms, 1)
        assert picture(self.snapshot) == before, "the plan left a trace"
        assert invariants.check(self.snapshot, made, self.policy, self.now_ms) == []
        return made

    def apply(self, made: Plan) -> None:
        for change in made.changes:
            self.events += change.events
            if isinstance(change, JobChange):
                self.snapshot.set_job_decision(change.job, change.decision)
            elif isinstance(change, NodeChange):
                self.snapshot.set_node_decision(change.node, change.decision)
            else:
                self.snapshot.set_reservations(change.reservations)

    def tick(self, seconds: float = 0) -> None:
        """Let time pass, then decide and obey until nothing more happens."""
        self.now_ms += int(seconds * 1000)
        for _ in range(60):
            made = self.plan()
            self.apply(made)
            if not self.obey() and not made.changes:
                return
        raise AssertionError("the cluster does not come to rest")

    def obey(self) -> bool:
        """Every agent brings its ranks to where the decisions want them. Whether that changed a report."""
        changed = False
        for name, node in self.snapshot.nodes.items():
            if not node.alive or name in self.deaf or node.report is None:
                continue
            gangs = tuple(self._gang(name, job) for job in sorted(node.jobs))
            if gangs != node.report.gangs:
                changed = True
                report = replace(node.report, gangs=gangs)
                self.snapshot.set_node_report(name, report)
        return changed

    def _gang(self, node: str, job: str) -> GangReport:
        decision = self.snapshot.jobs[job].decision
        state = {Phase.STARTING: RankState.READY, Phase.RUNNING: RankState.RUNNING}.get(decision.phase)
        stop = decision.stop
        saved = decision.phase is Phase.STOPPING
        if state is None:
            state = RankState.STOPPED if stop is not None and (stop.saved or stop.over) else RankState.RUNNING
        first = 0
        for part in decision.allocation:
            if part.node == node:
                break
            first += len(part.gpus)
        ranks = tuple(RankReport(first + at, state) for at in range(len(part.gpus)))
        can_save = self.snapshot.jobs[job].spec.checkpoint is not None
        work = decision.saved_work_ms
        if saved and can_save and stop is not None and decision.started_ms is not None:
            work = decision.banked_ms + stop.asked_ms - decision.started_ms
        return GangReport(job, decision.attempt, ranks, work, self.now_ms if saved else 0, saved and can_save)

    def end(self, job: str, code: int = 0) -> None:
        """The ranks of a running job end by themselves."""
        state = RankState.SUCCEEDED if code == 0 else RankState.FAILED
        decision = self.snapshot.jobs[job].decision
        first = 0
        for part in decision.allocation:
            node = self.snapshot.node(part.node)
            assert node.report is not None
            ranks = tuple(RankReport(first + at, state, code) for at in range(len(part.gpus)))
            kept = tuple(gang for gang in node.report.gangs if gang.job != job)
            gangs = (*kept, GangReport(job, decision.attempt, ranks))
            self.snapshot.set_node_report(part.node, NodeReport("boot", gangs, node.report.faulty_gpus))
            first += len(part.gpus)

    # --- what has come of it

    def phase(self, job: str) -> str:
        return self.snapshot.jobs[job].phase.value

    def reason(self, job: str) -> str | None:
        reason = self.snapshot.jobs[job].decision.reason
        return reason.value if reason is not None else None

    def on(self, job: str) -> list[str]:
        """The nodes that the job holds GPUs of, sorted."""
        decision = self.snapshot.jobs[job].decision
        return sorted(part.node for part in decision.allocation)

    def running(self) -> list[str]:
        return sorted(job.id for job in self.snapshot.jobs.values() if job.phase is Phase.RUNNING)

    def stops(self) -> int:
        return sum(job.decision.stops for job in self.snapshot.jobs.values())

    def held(self) -> int:
        return sum(job.spec.gpus for job in self.snapshot.jobs.values() if job.phase in HOLDING)


def picture(snapshot: Snapshot) -> Any:
    """Everything that a plan might leave a trace in, as plain values to compare."""
    topology = [
        (
            key,
            zone.free,
            [(rack.name, list(rack.bucket), rack.free) for rack in zone.racks()],
            [(size, list(pool.having), list(pool.count)) for size, pool in sorted(zone.pools.items())],
        )
        for key, zone in sorted(snapshot.topology.zones.items())
    ]
    nodes = {
        name: (
            dict(sorted(node.jobs.items())),
            node.held,
            node.cpus_free,
            node.memory_free,
            node.scratch_free,
            node.decision,
            node.open,
        )
        for name, node in snapshot.nodes.items()
    }
    quota = {
        branch.name: (
            {k: v for k, v in branch.held.items() if v},
            {k: v for k, v in branch.by_class.items() if v},
            {k: v for k, v in branch.past.items() if v},
        )
        for branch in snapshot.quota.root.below()
        if any(branch.held.values())
    }
    waiting = {
        (team, priority, shape.key()): (list(group.jobs), dict(group.reasons))
        for (team, priority, shape), group in snapshot.waiting.groups.items()
    }
    return copy.deepcopy(
        (
            topology,
            nodes,
            quota,
            waiting,
            {name: job.decision for name, job in snapshot.jobs.items()},
            snapshot.reservations,
            sorted(snapshot.holding),
            sorted(snapshot.stopping),
            sorted(snapshot.parked),
            {name: sorted(victims) for name, victims in snapshot.stopping_for.items()},
        )
    )
