"""Rows for tests of the control plane."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from itertools import count
from typing import Any

from portal.accounts.models import User
from quotas.ledger import services as ledger
from quotas.ledger.book import Account, Source
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.core.types import EventKind, JobSpec
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


_serial = count(1)


def charge_spans(job: Job, gpus: int, gpu_type: str, spans: Iterable[tuple[datetime, datetime | None]]) -> None:
    """Enter into the ledger that the job worked on its GPUs in these spans, one an attempt; None: it does still."""
    ledger.begin()
    account = Account(job.pk, job.team.name, job.owner.lower(), saves=True)
    for attempt, (starts, ends) in enumerate(spans, start=1):
        held = {"gpus": {"n1": list(range(gpus))}, "gpu_type": gpu_type}
        moves = [(EventKind.BIND, starts, held), (EventKind.START, starts, {})]
        moves += [(EventKind.RELEASE, ends, {})] if ends is not None else []
        ledger.charge(
            [
                ledger.Told(Source(f"built{next(_serial)}", 0), kind, clock.to_ms(at), account, attempt, "", detail)
                for kind, at, detail in moves
            ]
        )
