"""What may be changed of a job that is submitted, and by whom."""

from __future__ import annotations

from typing import Any

from portal.accounts.permissions import Standing
from portal.api.problems import Problem, invalid
from portal.submission import rights
from quotas import selectors as quotas
from scheduler.amendments import amend
from scheduler.core.types import HOLDING, Phase
from scheduler.fields import Choice, FieldError, Number, Record, Text
from scheduler.job_fields import Priority
from scheduler.models import Job
from scheduler.requests import HOUR_MS
from scheduler.services import AlreadyOver

AMENDMENT = Record(
    {
        "priority": (Choice(Priority), None),
        "max_runtime_hours": (Number(0.01, 8784, "hours"), None),
        "name": (Text(128), None),
    }
)
"""The body of ``PATCH jobs/{id}``; what it leaves out stays as it is."""


def amended(job: Job, phase: Phase, asked: dict[str, Any], person: Standing) -> Job:
    """The job with what was asked for.

    A job that has its GPUs may be given more time by an admin of its team or on-call alone: starts that others were
    promised, and what was let through before them, rest on the limit that it started with.

    Raises:
        Problem: 400, 403, 409.
    """
    priority = None if asked["priority"] is None else int(asked["priority"].value[1:])
    limit_ms = None if asked["max_runtime_hours"] is None else round(asked["max_runtime_hours"] * HOUR_MS)
    team = job.team.name
    if priority == 0 and job.priority != 0 and not rights(person, quotas.tree_in_force())[team].p0:
        remedy = "Ask for P1, or have the right granted to the team in the quota tree."
        raise invalid([FieldError("priority", f"{team} may not submit P0", remedy, "forbidden")])
    longer = limit_ms is not None and limit_ms > job.max_runtime_ms and phase in HOLDING
    if longer and not (person.sees_all or team in person.admin_of):
        remedy = f"Ask an admin of {team} or on-call: others were promised starts by the limit that it began with."
        raise invalid([FieldError("max_runtime_hours", "may not be raised while the job runs", remedy, "forbidden")])
    try:
        return amend(job.pk, priority=priority, max_runtime_ms=limit_ms, name=asked["name"])
    except AlreadyOver as error:
        raise Problem(409, f"{error}.", kind="already-over") from error
