"""Changing a job that is submitted, for the REST interface and the pages alike: the same checks, rights and audit."""

from __future__ import annotations

from typing import Any

from portal import operations
from portal.accounts.models import User
from portal.accounts.permissions import Standing
from portal.operations import Kind
from portal.submission import Invalid, rights
from quotas import selectors as quotas
from scheduler.amendments import amend
from scheduler.core.types import HOLDING, Phase
from scheduler.fields import INVALID, Choice, FieldError, Number, Record, Text
from scheduler.job_fields import Priority
from scheduler.models import Job
from scheduler.requests import HOUR_MS

AMENDMENT = Record(
    {
        "priority": (Choice(Priority), None),
        "max_runtime_hours": (Number(0.01, 8784, "hours"), None),
        "name": (Text(128), None),
    }
)
"""The body of ``PATCH jobs/{id}``; what it leaves out stays as it is."""


def read(body: Any) -> dict[str, Any]:
    """What is asked for. Raises Invalid."""
    errors: list[FieldError] = []
    found = AMENDMENT.read(body, "", errors)
    if found is INVALID or errors:
        raise Invalid(errors)
    return dict(found)


def change(user: User, person: Standing, job: Job, phase: Phase, asked: dict[str, Any], reason: str = "") -> Job:
    """The job with what was asked for, as ``read`` answers it; what is somebody else's is noted in the audit.

    A job that has its GPUs may be given more time by an admin of its team or on-call alone: starts that others were
    promised, and what was let through before them, rest on the limit that it started with.

    Raises:
        Invalid: a right is missing.
        scheduler.services.AlreadyOver: it has ended.
    """
    priority = None if asked["priority"] is None else int(asked["priority"].value[1:])
    limit_ms = None if asked["max_runtime_hours"] is None else round(asked["max_runtime_hours"] * HOUR_MS)
    errors = [*_priority(person, job, priority), *_limit(person, job, phase, limit_ms)]
    if errors:
        raise Invalid(errors)
    wanted = {"priority": priority, "max_runtime_ms": limit_ms, "name": asked["name"]}
    changes = {key: value for key, value in wanted.items() if value is not None and getattr(job, key) != value}
    kind = Kind.JOB_PRIORITY if changes.keys() == {"priority"} else Kind.JOB_CHANGE
    told = {key: [getattr(job, key), value] for key, value in changes.items()}
    return operations.on_job(user, kind, job, lambda job_id: amend(job_id, **wanted), reason, changes=told)


def may_have_longer(person: Standing, job: Job, phase: Phase) -> bool:
    """Whether this person may raise its time limit."""
    return phase not in HOLDING or person.sees_all or job.team.name in person.admin_of


def _priority(person: Standing, job: Job, priority: int | None) -> list[FieldError]:
    team = job.team.name
    if priority != 0 or job.priority == 0 or rights(person, quotas.tree_in_force())[team].p0:
        return []
    remedy = "Ask for P1, or have the right granted to the team in the quota tree."
    return [FieldError("priority", f"may not be P0 for {team}", remedy, "forbidden")]


def _limit(person: Standing, job: Job, phase: Phase, limit_ms: int | None) -> list[FieldError]:
    if limit_ms is None or limit_ms <= job.max_runtime_ms or may_have_longer(person, job, phase):
        return []
    remedy = f"Ask an admin of {job.team.name} or on-call: others were promised starts by the limit that it began with."
    return [FieldError("max_runtime_hours", "may not be raised while the job runs", remedy, "forbidden")]
