"""GPU-hours out of the ledger: what gangs held from their bind to their release, as floor, burst and lost.

Whole days are read from the sums by day; lines that those do not hold yet, days of which a part is asked for, and what
is held now are added, all in one statement: so the figures are those of one moment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from django.db import connection

from quotas.ledger.book import Stage

DAY = timedelta(days=1)


class By(StrEnum):
    """What GPU-hours may be summed by. Days and weeks (from Monday on) are UTC's.

    A ``node`` of the quota tree has what the teams below it have, as the tree was then: sums by it overlap.
    """

    TEAM = "team"
    USER = "user"
    GPU_TYPE = "gpu_type"
    NODE = "node"
    DAY = "day"
    WEEK = "week"


_COLUMNS = {
    By.TEAM: "team.name",
    By.USER: 'piece."user"',
    By.GPU_TYPE: "piece.gpu_type",
    By.NODE: "node.name",
    By.DAY: "piece.day::timestamp AT TIME ZONE 'UTC'",
    By.WEEK: "date_trunc('week', piece.day::timestamp) AT TIME ZONE 'UTC'",
}
_TIMES = (By.DAY, By.WEEK)


@dataclass(frozen=True, slots=True)
class Used:
    """One sum. What was not asked to sum by is None; ``start`` is that of the day or week.

    ``gpu_hours`` is ``floor_hours``, ``burst_hours`` and ``lost_hours`` together; ``jobs`` got GPUs for the first time;
    ``cost`` is by the price lists, None where a part of it has no price.
    """

    team: str | None
    user: str | None
    gpu_type: str | None
    node: str | None
    start: datetime | None
    gpu_hours: float
    floor_hours: float
    burst_hours: float
    lost_hours: float
    jobs: int
    cost: Decimal | None = None


_MS = "(extract(epoch FROM {ends} - {starts}) * 1000)"
_LINE_MS = _MS.format(ends="ends", starts="starts")
_PART_MS = _MS.format(ends="least(ends, %(until)s)", starts="greatest(starts, %(since)s)")
_OPEN_MS = _MS.format(ends="span.ends", starts="span.starts")

# Only names of this module's own make it up.
_PIECES = f"""
    SELECT day, team_id, "user", gpu_type, path, floor_ms, burst_ms, lost_ms, jobs
    FROM quotas_usageday WHERE day >= %(first)s AND day < %(after)s
    UNION ALL
    SELECT day, team_id, "user", gpu_type, path,
           floor * {_LINE_MS}, burst * {_LINE_MS}, lost * {_LINE_MS}, jobs
    FROM quotas_charge
    WHERE id > coalesce((SELECT rolled_to FROM quotas_ledgermark), 0) AND day >= %(first)s AND day < %(after)s
    UNION ALL
    SELECT day, team_id, "user", gpu_type, path,
           floor * {_PART_MS}, burst * {_PART_MS}, lost * {_PART_MS},
           CASE WHEN starts >= %(since)s THEN jobs ELSE 0 END
    FROM quotas_charge
    WHERE day = ANY(%(edges)s) AND starts < %(until)s AND ends > %(since)s
    UNION ALL
    SELECT (span.starts AT TIME ZONE 'UTC')::date, team_id, "user", gpu_type, path,
           CASE WHEN stage = %(work)s THEN floor ELSE 0 END * {_OPEN_MS},
           CASE WHEN stage = %(work)s THEN gpus - floor ELSE 0 END * {_OPEN_MS},
           CASE WHEN stage = %(work)s THEN 0 ELSE gpus END * {_OPEN_MS},
           CASE WHEN counted OR span.starts > since THEN 0 ELSE 1 END
    FROM quotas_holding
    CROSS JOIN LATERAL (
        SELECT greatest(since, %(since)s, midnight) AS starts,
               least(%(now)s, %(until)s, midnight + interval '24 hours') AS ends
        FROM generate_series(date_trunc('day', greatest(since, %(since)s), 'UTC'),
                             least(%(now)s, %(until)s), interval '24 hours') AS midnight
    ) span
    WHERE span.ends > span.starts
"""  # noqa: S608

_PRICES = """
    SELECT gpu_type, since, lead(since) OVER (PARTITION BY gpu_type ORDER BY since) AS until, gpu_hour
    FROM quotas_price
"""


def used(
    since: datetime,
    until: datetime,
    by: Sequence[By],
    *,
    now: datetime,
    team_ids: Collection[int] | None,
    teams: Collection[str] = (),
    nodes: Collection[str] = (),
    limit: int,
) -> list[Used]:
    """GPU-hours from ``since`` to ``until`` (what still runs counts to ``now``), at most ``limit`` sums. One query.

    Args:
        by: at most one of day and week.
        team_ids: the teams that the asker may see; None: all.
        teams: narrows to these.
        nodes: narrows to what lay below these, and sums by node to these.
    """
    first, after, edges = _days(since, until, now)
    values: dict[str, Any] = {
        "since": since,
        "until": until,
        "now": now,
        "first": first,
        "after": after,
        "edges": edges,
        "work": Stage.WORK.value,
        "team_ids": list(team_ids) if team_ids is not None else None,
        "teams": list(teams),
        "nodes": list(nodes),
        "limit": limit,
    }
    where = ["team_id = ANY(%(team_ids)s)"] if team_ids is not None else []
    where += ["team.name = ANY(%(teams)s)"] if teams else []
    where += ["piece.path && %(nodes)s::varchar[]"] if nodes else []
    where += ["node.name = ANY(%(nodes)s)"] if nodes and By.NODE in by else []
    with connection.cursor() as cursor:
        cursor.execute(_statement(by, where), values)
        return [_row(by, row) for row in cursor.fetchall()]


def _days(since: datetime, until: datetime, now: datetime) -> tuple[date, date, list[date]]:
    """The first whole day, the day after the last whole one, and the days of which a part is asked for.

    Nothing is charged that lies ahead, so a day that ``until`` cuts only in the future is whole.
    """
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    first, after = since.date(), until.date()
    edges = []
    if since != _midnight(first):
        edges.append(first)
        first += DAY
    if until > now:
        after += DAY
    elif until != _midnight(after):
        edges.append(after)
    return first, after, sorted(set(edges))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _statement(by: Sequence[By], where: Sequence[str]) -> str:
    keys = [_COLUMNS[one] for one in by]
    columns = "".join(f"{key}, " for key in keys)
    places = ", ".join(str(place + 1) for place in range(len(keys)))
    held = "piece.floor_ms + piece.burst_ms + piece.lost_ms"
    # Only names of this module's own make up the statement; every value is a parameter.
    return f"""
        SELECT {columns}
               coalesce(sum(piece.floor_ms), 0), coalesce(sum(piece.burst_ms), 0), coalesce(sum(piece.lost_ms), 0),
               coalesce(sum(piece.jobs), 0),
               CASE WHEN count(*) = count(price.gpu_hour) THEN sum(({held}) * price.gpu_hour) / 3600000 END
        FROM ({_PIECES}) piece
        JOIN quotas_quotanode team ON team.id = piece.team_id
        LEFT JOIN ({_PRICES}) price ON price.gpu_type = piece.gpu_type AND piece.day >= price.since
             AND (price.until IS NULL OR piece.day < price.until)
        {"CROSS JOIN LATERAL unnest(piece.path) AS node (name)" if By.NODE in by else ""}
        {"WHERE " + " AND ".join(where) if where else ""}
        {f"GROUP BY {places} HAVING sum({held}) <> 0 ORDER BY {places}" if keys else ""}
        LIMIT %(limit)s
    """  # noqa: S608


def _row(by: Sequence[By], row: Sequence[Any]) -> Used:
    keys = dict(zip(by, row, strict=False))
    start = next((keys[one] for one in _TIMES if one in keys), None)
    floor, burst, lost, jobs, cost = row[len(by) :]
    return Used(
        team=keys.get(By.TEAM),
        user=keys.get(By.USER),
        gpu_type=keys.get(By.GPU_TYPE),
        node=keys.get(By.NODE),
        start=start,
        gpu_hours=_hours(floor + burst + lost),
        floor_hours=_hours(floor),
        burst_hours=_hours(burst),
        lost_hours=_hours(lost),
        jobs=int(jobs),
        cost=None if cost is None else round(cost, 2),
    )


def _hours(ms: Decimal) -> float:
    return round(float(ms) / 3_600_000, 4)
