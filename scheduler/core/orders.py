"""What the agent of a node should run now, read off the decisions."""

from __future__ import annotations

from scheduler.core.job import Job
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import HOLDING, Action, Assignment, Phase


def orders(snapshot: Snapshot, node: str) -> tuple[Assignment, ...]:
    """The assignments of ``node``, by job. What it runs beyond them has to end at once."""
    record = snapshot.nodes.get(node)
    if record is None:
        return ()
    return tuple(
        _assignment(snapshot, snapshot.jobs[name], node)
        for name in sorted(record.jobs)
        if name in snapshot.jobs and snapshot.jobs[name].phase in HOLDING
    )


def _assignment(snapshot: Snapshot, job: Job, node: str) -> Assignment:
    """The assignment; the same object until something in it changes: a node is asked about for each of its jobs."""
    layout, decision, intent = job.layout, job.decision, job.intent
    address = _host(snapshot, layout.nodes[0]) if decision.master_port != 0 else ""
    known = layout.assigned.get(node)
    if known is None or known[0] is not decision or known[1] is not intent or known[2] != address:
        known = layout.assigned[node] = decision, intent, address, _assigned(job, node, address)
    return known[3]


def _assigned(job: Job, node: str, master_addr: str) -> Assignment:
    decision = job.decision
    at, part, ranks = job.layout.places[node]
    action = action_of(job)
    stop = decision.stop
    ending = action in (Action.CHECKPOINT, Action.STOP) and stop is not None
    return Assignment(
        job=job.id,
        attempt=decision.attempt,
        fence=decision.fence,
        action=action,
        ranks=ranks,
        gpus=part.gpus,
        world_size=job.spec.gpus,
        node_rank=at,
        nodes=job.layout.nodes,
        deadline_ms=stop.deadline_ms if ending and stop is not None else decision.deadline_ms,
        saved_work_ms=decision.banked_ms,
        spec=job.spec,
        resume_from=decision.resume_from,
        master_addr=master_addr,
        master_port=decision.master_port,
        save_ms=decision.save_ms,
    )


def _host(snapshot: Snapshot, node: str) -> str:
    """Where other hosts reach the node: its address without a port, or its name where it gave none."""
    record = snapshot.nodes.get(node)
    address = record.intent.address if record is not None and record.intent is not None else ""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, port = address.rpartition(":")
    return (host if host and ":" not in host and port.isdecimal() else address) or node


def action_of(job: Job) -> Action:
    """What the ranks of a gang that holds GPUs are to do."""
    decision = job.decision
    if decision.phase is Phase.STARTING:
        return Action.PREPARE
    if decision.phase is Phase.RUNNING:
        return Action.RUN
    stop = decision.stop
    assert stop is not None
    return Action.STOP if stop.saved or stop.over else Action.CHECKPOINT
