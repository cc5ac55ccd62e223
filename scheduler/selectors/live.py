"""One job as the live state has it: ahead of its row in PostgreSQL by as long as the recorder takes."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.observe import look
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Phase, Slice
from scheduler.picture import Picture


@dataclass(frozen=True, slots=True)
class LiveJob:
    """``allocation`` is ``[{"node", "rack", "az", "gpus": [indices], "unready"}]`` in the order of ranks. ``unready``
    is None but while the gang starts and the node is what it waits for: then it is what is in the way there, "" where
    the node has not said.

    ``cancel`` and ``hold`` are the wishes that reached the scheduler. Times are milliseconds since the epoch.
    """

    revision: int
    id: str
    team: str
    phase: str
    attempt: int
    gpu_type: str
    reason: str | None
    allocation: tuple[dict[str, object], ...]
    bound_ms: int | None
    started_ms: int | None
    deadline_ms: int | None
    stop_cause: str | None
    saved_work_ms: int
    saved_at_ms: int
    lost_ms: int
    restarts: int
    stops: int
    cancel: bool
    hold: bool


def live_job(picture: Picture, job_id: str) -> LiveJob | None:
    """The job, or None when it is not in the live state: not delivered yet, or ended and recorded.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        job = snapshot.jobs.get(job_id)
        if job is None:
            return None
        unready = look(snapshot, job).unready if job.phase is Phase.STARTING else {}
        places = tuple(_place(snapshot, part, unready.get(part.node)) for part in job.decision.allocation)
        decision, stopping = job.decision, job.phase is Phase.STOPPING
        return LiveJob(
            revision=picture.revision,
            id=job.id,
            team=job.spec.team,
            phase=job.phase.value,
            attempt=decision.attempt,
            gpu_type=decision.gpu_type or job.spec.gpu_type,
            reason=decision.reason.value if decision.reason else None,
            allocation=places,
            bound_ms=decision.bound_ms,
            started_ms=decision.started_ms,
            deadline_ms=decision.stop.deadline_ms if decision.stop and stopping else decision.deadline_ms,
            stop_cause=decision.stop.cause.value if decision.stop else None,
            saved_work_ms=decision.saved_work_ms,
            saved_at_ms=decision.saved_at_ms,
            lost_ms=decision.lost_ms,
            restarts=decision.restarts,
            stops=decision.stops,
            cancel=job.intent.cancel,
            hold=job.intent.hold,
        )


def _place(snapshot: Snapshot, part: Slice, unready: str | None) -> dict[str, object]:
    """Rack and zone are None for a node that has left the fleet under its gang."""
    node = snapshot.nodes.get(part.node)
    where = node.intent if node is not None else None
    return {
        "node": part.node,
        "rack": where and where.rack,
        "az": where and where.az,
        "gpus": list(part.gpus),
        "unready": unready,
    }
