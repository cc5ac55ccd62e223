"""GPU-hours out of history: what gangs held from their bind to their release, whatever became of their work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import connection

from scheduler.core.types import HOLDING, EventKind


class By(StrEnum):
    """What GPU-hours may be summed by. Days and weeks (from Monday on) are UTC's."""

    TEAM = "team"
    USER = "user"
    GPU_TYPE = "gpu_type"
    DAY = "day"
    WEEK = "week"


_COLUMNS = {By.TEAM: "team.name", By.USER: "lower(job.owner)", By.GPU_TYPE: "span.gpu_type"}
_TIMES = (By.DAY, By.WEEK)


@dataclass(frozen=True, slots=True)
class Used:
    """One sum. What was not asked to sum by is None; ``start`` is that of the day or week. ``jobs`` held something."""

    team: str | None
    user: str | None
    gpu_type: str | None
    start: datetime | None
    gpu_hours: float
    jobs: int


# Spans that ended after ``since`` are found by their release; those that have not ended by the jobs that hold GPUs.
_SPANS = """
    SELECT bind.job_id, bind.at AS starts, released.at AS ends, bind.detail->>'gpu_type' AS gpu_type
    FROM scheduler_jobevent released
    JOIN scheduler_jobevent bind
      ON bind.job_id = released.job_id AND bind.attempt = released.attempt AND bind.kind = %(bind)s
    WHERE released.kind = 'release' AND released.at > %(since)s AND bind.at < %(until)s
    UNION ALL
    SELECT bind.job_id, bind.at, %(now)s, bind.detail->>'gpu_type'
    FROM scheduler_job holder
    JOIN scheduler_jobevent bind
      ON bind.job_id = holder.id AND bind.attempt = holder.attempt AND bind.kind = %(bind)s
    WHERE holder.state = ANY(%(holding)s) AND bind.at < %(until)s
"""


def used(
    since: datetime,
    until: datetime,
    by: Sequence[By],
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    teams: Collection[str] = (),
    limit: int,
) -> list[Used]:
    """GPU-hours from ``since`` to ``until`` (what still runs counts to ``now``), at most ``limit`` sums. One query.

    Args:
        by: at most one of day and week.
        team_ids: the teams that the asker may see; None: all.
        teams: narrows to these.
    """
    until = min(until, now)
    step = next((one.value for one in by if one in _TIMES), None)
    keys = [_COLUMNS.get(one, "piece.starts") for one in by]
    values: dict[str, Any] = {
        "since": since,
        "until": until,
        "now": now,
        "bind": EventKind.BIND.value,
        "holding": [phase.value for phase in HOLDING],
        "team_ids": list(team_ids) if team_ids is not None else None,
        "teams": list(teams),
        "step": step,
        "long": f"1 {step}" if step is not None else None,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_statement(keys, step, team_ids is not None, bool(teams)), values)
        return [_row(by, row) for row in cursor.fetchall()]


def _statement(keys: list[str], step: str | None, bounded: bool, narrowed: bool) -> str:
    pieces = "(SELECT greatest(span.starts, %(since)s) AS starts, least(span.ends, %(until)s) AS ends)"
    if step is not None:
        pieces = """(
            SELECT bucket AS starts,
                   greatest(span.starts, %(since)s, bucket) AS begins,
                   least(span.ends, %(until)s, bucket + %(long)s::interval) AS ends
            FROM generate_series(date_trunc(%(step)s, greatest(span.starts, %(since)s), 'UTC'),
                                 least(span.ends, %(until)s), %(long)s::interval) AS bucket
        )"""
    begins = "piece.begins" if step is not None else "piece.starts"
    where = [f"piece.ends > {begins}"]
    where += ["job.team_id = ANY(%(team_ids)s)"] if bounded else []
    where += ["team.name = ANY(%(teams)s)"] if narrowed else []
    columns = "".join(f"{key}, " for key in keys)
    grouped = f"GROUP BY {', '.join(keys)} ORDER BY {', '.join(keys)}" if keys else ""
    # Only names of this module's own make up the statement; every value is a parameter.
    return f"""
        SELECT {columns}
               coalesce(sum(job.gpus * extract(epoch FROM piece.ends - {begins})), 0) / 3600,
               count(DISTINCT job.id)
        FROM ({_SPANS}) span
        JOIN scheduler_job job ON job.id = span.job_id
        JOIN quotas_quotanode team ON team.id = job.team_id
        CROSS JOIN LATERAL {pieces} piece
        WHERE {" AND ".join(where)}
        {grouped}
        LIMIT %(limit)s
    """  # noqa: S608


def _row(by: Sequence[By], row: Sequence[Any]) -> Used:
    keys = dict(zip(by, row, strict=False))
    start = next((keys[one] for one in _TIMES if one in keys), None)
    hours, jobs = row[-2:]
    return Used(keys.get(By.TEAM), keys.get(By.USER), keys.get(By.GPU_TYPE), start, round(float(hours), 4), jobs)
