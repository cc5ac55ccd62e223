"""Rows for tests of the control plane."""

from __future__ import annotations

import json
from typing import Any

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.core.types import JobSpec
from scheduler.models import Job
from scheduler.store import codec


def row_of_job(spec: JobSpec, team: QuotaNode, user: User, **fields: Any) -> Job:
    """The row that ``services.submit`` would have written, without its intent on the way."""
    return Job.objects.create(
        **{
            "id": spec.id,
            "name": spec.name or spec.id,
            "team": team,
            "owner": user.email,
            "submitted_by": user,
            "priority": spec.priority,
            "gpus": spec.gpus,
            "gpu_type": spec.gpu_type,
            "hint": spec.hint.value,
            "max_runtime_ms": spec.max_runtime_ms,
            "spec": {},
            "core_spec": json.loads(codec.encode(spec)),
            "submitted_at": clock.to_datetime(spec.submitted_ms),
            "body_hash": "",
            **fields,
        }
    )
