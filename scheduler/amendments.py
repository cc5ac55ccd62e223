"""What people change of a job that they submitted before: its priority, its time limit, its name."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from scheduler import outbox
from scheduler.core.types import TERMINAL
from scheduler.models import Job
from scheduler.services import AlreadyOver, intent_of
from scheduler.store import keys

HOUR_MS = 3_600_000


def amend(
    job_id: str, *, priority: int | None = None, max_runtime_ms: int | None = None, name: str | None = None
) -> Job:
    """Change what is given, in the row, in the body as submitted and in the scheduler's intent. Asked again, nothing
    changes. The caller has checked the values and who may ask for them.

    Raises:
        Job.DoesNotExist: there is no such job.
        AlreadyOver: it has ended.
    """
    wanted: dict[str, Any] = {"priority": priority, "max_runtime_ms": max_runtime_ms, "name": name}
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("team").get(pk=job_id)
        changed = {key: value for key, value in wanted.items() if value is not None and getattr(job, key) != value}
        if not changed:
            return job
        if job.state in TERMINAL:
            raise AlreadyOver(job)
        for key, value in changed.items():
            setattr(job, key, value)
        job.core_spec = {**job.core_spec, **changed}
        job.spec = {**job.spec, **_as_submitted(changed)}
        job.intent_version += 1
        job.save(update_fields=[*changed, "core_spec", "spec", "intent_version"])
        outbox.enqueue(keys.intent_job(job.pk), intent_of(job))
        return job


def _as_submitted(changed: dict[str, Any]) -> dict[str, Any]:
    """The changes in the words of the body: a copy of the job starts from them."""
    body = {key: value for key, value in changed.items() if key == "name"}
    if "priority" in changed:
        body["priority"] = f"P{changed['priority']}"
    if "max_runtime_ms" in changed:
        hours = changed["max_runtime_ms"] / HOUR_MS
        body["max_runtime_hours"] = int(hours) if hours.is_integer() else hours
    return body
