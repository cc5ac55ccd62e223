"""A job's row, and the live state's word on it, as answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from portal.api.answers import JobDetail, JobSummary, Placement
from portal.foreseeing import expected_starts, likely_starts
from scheduler import clock, selectors
from scheduler.core.types import TERMINAL, Phase
from scheduler.models import Job
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.requests import HOUR_MS
from scheduler.selectors import LiveJob
from scheduler.store.base import StoreUnavailable


def summary(job: Job) -> JobSummary:
    return JobSummary(**_recorded(job))


def detail(job: Job) -> JobDetail:
    """The job with what the live state adds; history alone where the job is over or the live state is away."""
    live = None if job.state in TERMINAL else _live(job.pk)
    fields = _recorded(job)
    if live is not None:
        fields |= {"state": live.phase, "reason": live.reason, "attempt": live.attempt, "stop_cause": live.stop_cause}
    return JobDetail(
        **fields,
        **_progress(live),
        live=live is not None,
        spec=job.spec,
        allocation=_placements(live.allocation if live is not None else job.allocation),
        queue_position=queue_position(job) if fields["state"] == Phase.PENDING else None,
        eta=expected_start(job.pk) if fields["state"] == Phase.PENDING else None,
        **(likely_start(job.pk) if fields["state"] == Phase.PENDING else NOT_TOLD),
    )


def expected_start(job_id: str) -> datetime | None:
    """When the forecast expects a waiting job to start; None where that is unknown."""
    at_ms = expected_starts().start_ms(job_id, clock.now_ms())
    return None if at_ms is None else clock.to_datetime(at_ms)


NOT_TOLD: dict[str, Any] = {"eta_p50": None, "eta_p90": None}


def likely_start(job_id: str) -> dict[str, Any]:
    """P50 and P90 of the start by learned run times; None where they are not known."""
    one = likely_starts().of(job_id, clock.now_ms())
    if one is None:
        return NOT_TOLD
    return {"eta_p50": clock.to_datetime(one.p50_ms), "eta_p90": clock.to_datetime(one.p90_ms)}


def _progress(live: LiveJob | None) -> dict[str, Any]:
    if live is None:
        names = ("restarts", "stops", "deadline_at", "saved_work_seconds", "lost_work_seconds")
        return dict.fromkeys(names)
    return {
        "restarts": live.restarts,
        "stops": live.stops,
        "deadline_at": None if live.deadline_ms is None else clock.to_datetime(live.deadline_ms),
        "saved_work_seconds": live.saved_work_ms / 1000,
        "lost_work_seconds": live.lost_ms / 1000,
    }


def queue_position(job: Job) -> int | None:
    return selectors.queue_position(picture(), live_policy(), job.pk, job.priority, clock.now_ms())


def _recorded(job: Job) -> dict[str, Any]:
    return {
        "id": job.pk,
        "name": job.name,
        "team": job.team.name,
        "owner": job.owner,
        "priority": f"P{job.priority}",
        "state": job.state,
        "reason": job.reason or None,
        "gpu_count": job.gpus,
        "gpu_type": job.gpu_type,
        "topology_hint": job.hint,
        "max_runtime_hours": job.max_runtime_ms / HOUR_MS,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "attempt": job.attempt,
        "stop_cause": job.stop_cause or None,
        "hold": job.hold,
        "cancel_requested": job.cancel,
        "array": job.array_id or None,
    }


def _live(job_id: str) -> LiveJob | None:
    try:
        return selectors.live_job(picture(), job_id)
    except StoreUnavailable:
        return None


def _placements(allocation: Any) -> list[Placement]:
    return [
        Placement(part["node"], part.get("rack"), part.get("az"), list(part["gpus"]), part.get("unready"))
        for part in allocation
    ]
