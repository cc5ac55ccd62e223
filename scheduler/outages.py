"""Times in which a store did not answer, as web processes saw them, and what became of the jobs meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from scheduler.models import Job, JobEvent, StoreOutage

SAME = timedelta(seconds=30)
"""What processes saw of one store within so short a time was the same outage."""
_LOCK = 0x0A6E
"""Of PostgreSQL's advisory locks: one process records at a time."""


@dataclass(frozen=True, slots=True)
class Outage:
    store: str
    start: datetime
    end: datetime


def record(seen: Outage) -> StoreOutage:
    """Keep an outage that is over. What another process saw of the same one is made longer, not told twice."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        known = StoreOutage.objects.filter(store=seen.store, start__lte=seen.end + SAME, end__gte=seen.start - SAME)
        row = known.order_by("-end").first() or StoreOutage(store=seen.store, start=seen.start, end=seen.end)
        row.start, row.end = min(row.start, seen.start), max(row.end, seen.end)
        row.save()
        return row


@dataclass(frozen=True, slots=True)
class Told:
    """``accepted`` counts the jobs that were submitted meanwhile, ``ended`` the attempts that gave their GPUs back."""

    outage: Outage
    accepted: int
    ended: int


def outages(since: datetime, most: int) -> list[Told]:
    """Those that ended since, the newest first. One query."""
    submitted = Job.objects.filter(submitted_at__gte=OuterRef("start"), submitted_at__lte=OuterRef("end"))
    released = JobEvent.objects.filter(kind="release", at__gte=OuterRef("start"), at__lte=OuterRef("end"))
    rows = (
        StoreOutage.objects.filter(end__gte=since)
        .annotate(accepted=_count(submitted), ended=_count(released))
        .values_list("store", "start", "end", "accepted", "ended")
    )
    return [Told(Outage(store, start, end), accepted, ended) for store, start, end, accepted, ended in rows[:most]]


def _count(rows: QuerySet[Job] | QuerySet[JobEvent]) -> Coalesce:
    counted = rows.order_by().annotate(one=Value(1)).values("one").annotate(many=Count("pk")).values("many")
    return Coalesce(Subquery(counted), 0)
