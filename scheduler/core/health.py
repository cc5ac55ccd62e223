"""The health of nodes: silent ones are suspected at once and lost after a while, bad ones are set aside."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core import probation
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.silence import LOST, Silences
from scheduler.core.topology import Node
from scheduler.core.types import (
    ENDED_RANK,
    HOLDING,
    Event,
    EventKind,
    GpuFault,
    Health,
    NodeDecision,
    NodeReport,
)

_WELL = NodeDecision()


def settle(draft: Draft) -> None:
    """Look at the nodes whose records changed and at those that are not well."""
    snapshot = draft.snapshot
    silences = Silences(draft)
    for name in sorted(snapshot.work.nodes | snapshot.unwell):
        node = snapshot.nodes.get(name)
        if node is not None:
            _look_at(draft, node, silences)
    _wake_for_windows(draft)


def _look_at(draft: Draft, node: Node, silences: Silences) -> None:
    if node.alive and node.decision is None and _says_nothing(node.report):
        return
    old = node.decision or _WELL
    new, due = _heard(draft, node, old) if node.alive else _silent(draft, node, old, silences)
    draft.wake(due)
    events: list[Event] = []
    if node.report is not None:
        new, events = _gpus(node.name, new, node.report, draft.now_ms)
        new, more = _notices(node.name, new, node.report, draft.now_ms)
        events += more
    if new == old:
        return
    if new.health is not old.health or (new.health is Health.SUSPECT and new.why != old.why):
        events.append(_host_event(node.name, new.health, new.why, draft.now_ms))
    draft.decide_node(node.name, new, events)


def _says_nothing(report: NodeReport | None) -> bool:
    """Whether a report is of ranks alone, as most of them are."""
    return report is None or not (report.faulty_gpus or report.notices or report.faults)


def _heard(draft: Draft, node: Node, decision: NodeDecision) -> tuple[NodeDecision, int | None]:
    now, policy = draft.now_ms, draft.policy
    if decision.health is Health.DOWN and _stale_ranks(draft, node):
        return decision, None
    if _came_back(draft, node, decision):
        decision = probation.counted(node, decision, policy, now)
    hinted = node.report is not None and bool(node.report.hints)
    if hinted != bool(decision.hinted_ms):
        decision = replace(decision, hinted_ms=max(1, now) if hinted else 0)
    stands = probation.standing(node, decision, policy, now)
    return _turned(stands.decision, stands.health, stands.why, now), stands.due_ms


def _came_back(draft: Draft, node: Node, decision: NodeDecision) -> bool:
    """Whether a silence is over that counts against the host: of its own, and with nobody at work on it."""
    if decision.health not in (Health.SUSPECT, Health.DOWN) or decision.why != LOST:
        return False
    return not node.draining(draft.now_ms) and node.intent is not None and node.intent.cordon is None


def _silent(draft: Draft, node: Node, decision: NodeDecision, silences: Silences) -> tuple[NodeDecision, int | None]:
    if node.decision is None and node.report is None:
        return decision, None  # registered and not heard yet: it takes no work, and nothing was lost
    health, why, due = silences.judged(node, decision)
    return _turned(decision, health, why, draft.now_ms), due


def _turned(decision: NodeDecision, health: Health, why: str, now_ms: int) -> NodeDecision:
    """The decision with this health, since now if it is another."""
    if health is not decision.health:
        return replace(decision, health=health, since_ms=now_ms, why=why)
    return decision if why == decision.why else replace(decision, why=why)


def _stale_ranks(draft: Draft, node: Node) -> bool:
    """Whether the agent still speaks of a living rank of an attempt that nobody has here any more."""
    for gang in node.gangs.values():
        job = draft.snapshot.jobs.get(gang.job)
        current = job is not None and job.phase in HOLDING and job.decision.attempt == gang.attempt
        if not (current and gang.job in node.jobs) and any(rank.state not in ENDED_RANK for rank in gang.ranks):
            return True
    return False


def blame(draft: Draft, name: str, job: Job, failed_before: tuple[str, ...]) -> None:
    """Note that an attempt of the job failed on the node; too many different jobs within a day set it aside.

    ``failed_before`` are the nodes on which its earlier attempts failed. A job that fails wherever it goes says nothing
    of any of them: it is held against none.
    """
    elsewhere = {other for other in failed_before if other != name}
    if elsewhere:
        for other in sorted(elsewhere | {name}):
            _forgive(draft, other, job.id)
        return
    node, now = draft.snapshot.node(name), draft.now_ms
    decision = node.decision or _WELL
    failures = tuple(f for f in probation.failures(node, now) if f[1] != job.id)
    decision = replace(decision, failures=(*failures, (now, job.id)))
    events = []
    if len(decision.failures) >= draft.policy.quarantine_after and decision.health is Health.READY:
        relapses = decision.relapses + 1
        decision = replace(_turned(decision, Health.QUARANTINED, probation.FAILING, now), relapses=relapses)
        events.append(_host_event(name, Health.QUARANTINED, probation.FAILING, now))
    draft.decide_node(name, decision, events)


def _forgive(draft: Draft, name: str, job: str) -> None:
    decision = draft.snapshot.node(name).decision
    if decision is None:
        return
    failures = tuple(failure for failure in decision.failures if failure[1] != job)
    if failures != decision.failures:
        draft.decide_node(name, replace(decision, failures=failures), ())


def fence(draft: Draft, name: str, why: str) -> None:
    """Take a node out whose agent did not end what it was told to end."""
    node = draft.snapshot.node(name)
    if node.health is Health.DOWN:
        return
    decision = _turned(node.decision or _WELL, Health.DOWN, why, draft.now_ms)
    draft.decide_node(name, decision, [_host_event(name, Health.DOWN, why, draft.now_ms)])


def _host_event(name: str, health: Health, why: str, now_ms: int) -> Event:
    return Event(EventKind.HOST, now_ms, None, name, 0, {"state": health.value, "why": why})


def _gpus(name: str, decision: NodeDecision, report: NodeReport, now_ms: int) -> tuple[NodeDecision, list[Event]]:
    """Take note of what is new about the node's GPUs, and tell it."""
    told, seen = decision.faulty_gpus, tuple(sorted(report.faulty_gpus))
    fresh = [fault for fault in report.faults if fault.at_ms > decision.faults_ms]
    events = [_xid_event(name, fault, now_ms) for fault in fresh]
    changed = [(gpu, "FAULTY") for gpu in seen if gpu not in told] + [(gpu, "OK") for gpu in told if gpu not in seen]
    events += [Event(EventKind.GPU, now_ms, None, name, 0, {"gpu": gpu, "state": state}) for gpu, state in changed]
    newest = max((fault.at_ms for fault in fresh), default=decision.faults_ms)
    if not events:
        return decision, events
    return replace(decision, faulty_gpus=seen, faults_ms=newest), events


def _notices(name: str, decision: NodeDecision, report: NodeReport, now_ms: int) -> tuple[NodeDecision, list[Event]]:
    """Tell what has come up over the node, and what is over."""
    standing = tuple(notice.id for notice in report.notices)
    if standing == decision.notices:
        return decision, []
    details = [
        {"notice": one.kind.value, "id": one.id, "gone_at_ms": one.gone_at_ms, "state": "STANDS"}
        for one in report.notices
        if one.id not in decision.notices
    ]
    details += [{"id": known, "state": "OVER"} for known in decision.notices if known not in standing]
    events = [Event(EventKind.NOTICE, now_ms, None, name, 0, detail) for detail in details]
    return replace(decision, notices=standing), events


def _xid_event(name: str, fault: GpuFault, now_ms: int) -> Event:
    detail = {
        "gpu": fault.gpu,
        "state": "XID",
        "xid": fault.xid,
        "remedy": fault.remedy.value,
        "seen_ms": fault.at_ms,
        "job": fault.job,
    }
    return Event(EventKind.GPU, now_ms, None, name, 0, detail)


def _wake_for_windows(draft: Draft) -> None:
    """Have a plan made when a maintenance window begins or ends; jobs are looked at when one has begun."""
    snapshot, now = draft.snapshot, draft.now_ms
    for name in snapshot.windowed:
        node = snapshot.node(name)
        assert node.intent is not None
        for window in node.intent.maintenance:
            for edge in (window.start_ms, window.end_ms):
                if edge > now:
                    draft.wake(edge)
                elif edge > snapshot.planned_ms:
                    snapshot.work.gained.add(node.intent.gpu_type)
            if window.start_ms <= now < window.end_ms:
                snapshot.work.jobs.update(node.jobs)
