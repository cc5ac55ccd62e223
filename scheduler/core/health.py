"""The health of nodes: silent ones are suspected at once and lost after a while, bad ones are set aside."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.attempts import DAY_MS
from scheduler.core.draft import Draft
from scheduler.core.topology import Node
from scheduler.core.types import ENDED_RANK, HOLDING, Event, EventKind, Health, NodeDecision

LOST = "no sign of life"


def settle(draft: Draft) -> None:
    """Look at the nodes whose records changed and at those that are not well."""
    snapshot = draft.snapshot
    for name in sorted(snapshot.work.nodes | snapshot.unwell):
        node = snapshot.nodes.get(name)
        if node is not None:
            _look_at(draft, node)
    _wake_for_windows(draft)


def _look_at(draft: Draft, node: Node) -> None:
    decision = node.decision
    told = decision.faulty_gpus if decision is not None else ()
    seen = tuple(sorted(node.report.faulty_gpus)) if node.report is not None else told
    health, why, due = _health(draft, node)
    draft.wake(due)
    if health is node.health and told == seen:
        return
    if decision is None:
        decision = NodeDecision()
    events = _gpu_events(node.name, told, seen, draft.now_ms)
    if health is not decision.health:
        events.append(_host_event(node.name, health, why, draft.now_ms))
        decision = replace(decision, health=health, since_ms=draft.now_ms, why=why)
    draft.decide_node(node.name, replace(decision, faulty_gpus=seen), events)


def _health(draft: Draft, node: Node) -> tuple[Health, str, int | None]:
    """What the node's health should be, why, and when that has to be asked again."""
    now, policy = draft.now_ms, draft.policy
    old = node.health
    if not node.alive:
        return _silent(draft, node)
    if old is Health.DOWN and _stale_ranks(draft, node):
        return old, "", None
    failures = _recent(node, now)
    if len({job for _, job in failures}) >= policy.quarantine_after:
        return Health.QUARANTINED, "jobs keep failing here", failures[0][0] + DAY_MS
    return Health.READY, "", None


def _silent(draft: Draft, node: Node) -> tuple[Health, str, int | None]:
    now, decision, report = draft.now_ms, node.decision, node.report
    if decision is None and report is None:
        return node.health, "", None  # registered and not heard yet: it takes no work, and nothing was lost
    if node.health is Health.DOWN:
        return Health.DOWN, "", None
    if report is not None and report.gone_at_ms is not None and now >= report.gone_at_ms:
        return Health.DOWN, "taken away by its provider", None
    if node.health is not Health.SUSPECT or decision is None:
        return Health.SUSPECT, LOST, now + draft.policy.heartbeat_timeout_ms
    lost_at = decision.since_ms + draft.policy.heartbeat_timeout_ms
    if now >= lost_at:
        return Health.DOWN, LOST, None
    return Health.SUSPECT, LOST, lost_at


def _stale_ranks(draft: Draft, node: Node) -> bool:
    """Whether the agent still speaks of a living rank of an attempt that nobody has here any more."""
    for gang in node.gangs.values():
        job = draft.snapshot.jobs.get(gang.job)
        current = job is not None and job.phase in HOLDING and job.decision.attempt == gang.attempt
        if not (current and gang.job in node.jobs) and any(rank.state not in ENDED_RANK for rank in gang.ranks):
            return True
    return False


def _recent(node: Node, now_ms: int) -> list[tuple[int, str]]:
    """The failures of the last day that nobody has pardoned, oldest first."""
    if node.decision is None:
        return []
    pardoned = node.intent.pardon_ms if node.intent is not None else 0
    since = max(now_ms - DAY_MS, pardoned)
    return sorted(failure for failure in node.decision.failures if failure[0] > since)


def blame(draft: Draft, name: str, job: str) -> None:
    """Note that an attempt of ``job`` failed on the node; too many different jobs within a day set it aside."""
    node = draft.snapshot.node(name)
    decision = node.decision or NodeDecision()
    failures = tuple(f for f in _recent(node, draft.now_ms) if f[1] != job)
    decision = replace(decision, failures=(*failures, (draft.now_ms, job)))
    events = []
    if len(decision.failures) >= draft.policy.quarantine_after and decision.health is Health.READY:
        why = "jobs keep failing here"
        decision = replace(decision, health=Health.QUARANTINED, since_ms=draft.now_ms, why=why)
        events.append(_host_event(name, Health.QUARANTINED, why, draft.now_ms))
    draft.decide_node(name, decision, events)


def fence(draft: Draft, name: str, why: str) -> None:
    """Take a node out whose agent did not end what it was told to end."""
    node = draft.snapshot.node(name)
    if node.health is Health.DOWN:
        return
    decision = replace(node.decision or NodeDecision(), health=Health.DOWN, since_ms=draft.now_ms, why=why)
    draft.decide_node(name, decision, [_host_event(name, Health.DOWN, why, draft.now_ms)])


def _host_event(name: str, health: Health, why: str, now_ms: int) -> Event:
    return Event(EventKind.HOST, now_ms, None, name, 0, {"state": health.value, "why": why})


def _gpu_events(name: str, told: tuple[int, ...], seen: tuple[int, ...], now_ms: int) -> list[Event]:
    changed = [(gpu, "FAULTY") for gpu in seen if gpu not in told] + [(gpu, "OK") for gpu in told if gpu not in seen]
    return [Event(EventKind.GPU, now_ms, None, name, 0, {"gpu": gpu, "state": state}) for gpu, state in changed]


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
