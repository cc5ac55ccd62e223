"""The journal's events on their way into the ledger (``quotas.ledger``), in the recorder's own transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from quotas.ledger import services as ledger
from quotas.ledger.book import Account, Source
from quotas.ledger.services import KINDS, Told
from scheduler import clock
from scheduler.core.types import Event, EventKind
from scheduler.models import Job, JobEvent

CHUNK = 2_000


def begin() -> None:
    """Where there is no ledger yet, write it from all the history that there is. Once in the life of a database."""
    if ledger.began():
        return
    ledger.begin()
    rows = JobEvent.objects.filter(kind__in=[kind.value for kind in KINDS], job__isnull=False)
    history = _history(rows.order_by("revision", "position"))
    while some := list(islice(history, CHUNK)):
        ledger.charge(some)


def charge(told: Iterable[tuple[str, list[Event]]], jobs: dict[str, Job]) -> None:
    """Charge what is told by (name of the entry, its events), none of them recorded before."""
    ledger.charge([one for entry, events in told for one in _of_entry(entry, events, jobs)])


def _of_entry(entry: str, events: list[Event], jobs: dict[str, Job]) -> Iterator[Told]:
    for position, event in enumerate(events):
        job = jobs.get(event.job or "")
        if job is not None and event.kind in KINDS:
            account = _account(job.pk, job.team.name, job.owner, job.core_spec)
            source = Source(entry, position)
            yield Told(source, event.kind, event.at_ms, account, event.attempt, job.gpu_type, event.detail)


def _history(rows: Any) -> Iterator[Told]:
    names = ("entry", "position", "kind", "at", "attempt", "detail")
    of_job = ("job_id", "job__team__name", "job__owner", "job__core_spec", "job__gpu_type")
    for entry, position, kind, at, attempt, detail, *about, gpu_type in rows.values_list(*names, *of_job).iterator():
        source = Source(entry, position)
        yield Told(source, EventKind(kind), clock.to_ms(at), _account(*about), attempt, gpu_type, detail)


def _account(job: str, team: str, owner: str, core_spec: dict[str, Any]) -> Account:
    return Account(job, team, owner.lower(), core_spec.get("checkpoint") is not None)
