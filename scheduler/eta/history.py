"""The past of the live system, from PostgreSQL: which jobs ran for how long, and which came."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from scheduler import clock
from scheduler.core.types import Hint, JobSpec
from scheduler.eta.arrivals import Arrivals, Coming
from scheduler.eta.past import Ran, Wanted, family
from scheduler.eta.runtimes import drawn_to_the_end
from scheduler.models import Job

KEPT = timedelta(days=90)
MOST = 100_000
CAME = timedelta(weeks=4)
MOST_CAME = 60_000
_FIELDS = (
    *("id", "name", "owner", "priority", "gpus", "gpu_type", "hint", "max_runtime_ms", "submitted_at", "started_at"),
    *("ended_at", "team__name", "core_spec__launch__image"),
)


def ran(now: datetime) -> list[Ran]:
    """The newest jobs that began to run, in the order of their submission; those that run still without an end.

    From the first start to the end, and no longer than the limit: a job that was stopped in between waited for a part
    of that, and is taken to have run for it.
    """
    rows = (
        Job.objects.filter(submitted_at__gte=now - KEPT, started_at__isnull=False)
        .order_by("-submitted_at", "-id")
        .values(*_FIELDS)[:MOST]
    )
    return [_ran(row, now) for row in reversed(rows)]


def arrivals(now: datetime, known: Sequence[Ran]) -> Arrivals:
    """What came within the last weeks. ``known`` tells how long each ran; one that did not run is not played."""
    lengths = {one.wanted.job: length for one, length in zip(known, drawn_to_the_end(known), strict=True)}
    rows = (
        Job.objects.filter(submitted_at__gte=now - CAME, started_at__isnull=False)
        .order_by("-submitted_at", "-id")
        .values(*_FIELDS)[:MOST_CAME]
    )
    came = [Coming(_spec(row), lengths[row["id"]]) for row in reversed(rows) if row["id"] in lengths]
    return Arrivals(came, clock.to_ms(now))


def _ran(row: dict[str, Any], now: datetime) -> Ran:
    ended: datetime | None = row["ended_at"]
    limit_s = row["max_runtime_ms"] / 1000
    length_s = max(0.0, ((ended or now) - row["started_at"]).total_seconds())
    return Ran(wanted(row), min(length_s, limit_s), None if ended is None else ended.timestamp())


def wanted(row: dict[str, Any]) -> Wanted:
    return Wanted(
        job=row["id"],
        team=row["team__name"],
        owner=row["owner"].casefold(),
        family=family(row["name"]),
        image=row["core_spec__launch__image"] or "",
        gpus=row["gpus"],
        gpu_type=row["gpu_type"],
        priority=row["priority"],
        limit_s=row["max_runtime_ms"] / 1000,
        submitted_s=row["submitted_at"].timestamp(),
    )


def _spec(row: dict[str, Any]) -> JobSpec:
    return JobSpec(
        id=row["id"],
        team=row["team__name"],
        gpus=row["gpus"],
        gpu_type=row["gpu_type"],
        priority=row["priority"],
        max_runtime_ms=row["max_runtime_ms"],
        submitted_ms=clock.to_ms(row["submitted_at"]),
        hint=Hint(row["hint"]),
    )
