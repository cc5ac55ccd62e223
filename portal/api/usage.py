"""`usage`: GPU-hours out of history, as JSON or, by Accept, as CSV."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.description import describe
from portal.api.endpoint import Endpoint, OneFormat, RecordRenderer
from portal.api.problems import invalid
from portal.api.query import Moment, Query, Several
from portal.usage_csv import to_csv
from scheduler import clock
from scheduler.fields import Choice, FieldError, Text
from scheduler.selectors.usage import By, Used, used

MOST_ROWS = 20_000
MOST_DAYS = 400
DEFAULT_DAYS = 28
WANTED = Query(
    {
        "from": (Moment(), None),
        "to": (Moment(), None),
        "group_by": (Several(Choice(By), 6), (By.TEAM, By.WEEK)),
        "team": (Several(Text(64)), ()),
    }
)


class UsageRow(msgspec.Struct, frozen=True):
    """GPU-hours of one group; what was not grouped by is null. ``start`` is that of the day or week, in UTC.

    ``gpu_hours`` is what was held: ``floor_hours``, ``burst_hours`` and ``lost_hours`` together. ``jobs`` are those
    that got GPUs for the first time. ``cost`` is by the price lists, null where a GPU type has no price.
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
    cost: str | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What gangs held from their bind to their release; those that still hold count up to now."""

    group_by: list[str]
    gpu_hours: float
    items: list[UsageRow]
    since: datetime = msgspec.field(name="from")
    until: datetime = msgspec.field(name="to")


class CsvRenderer(BaseRenderer):
    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        return to_csv(data.items, [By(one) for one in data.group_by])


class JsonOrCsv(OneFormat):
    """CSV for those who ask for it and not for JSON."""

    def select_renderer(self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: Any = None) -> Any:
        as_json, as_csv = renderers
        accepted = request.headers.get("Accept", "")
        chosen = as_csv if "text/csv" in accepted and "json" not in accepted else as_json
        return chosen, chosen.media_type


class UsageView(Endpoint):
    renderer_classes = [RecordRenderer, CsvRenderer]
    content_negotiation_class = JsonOrCsv
    query = {"GET": WANTED}

    @describe(
        "getUsage",
        "GPU-hours by team, user, GPU type, node of the quota tree, day or week, of the teams that one may see",
        Usage,
        query=WANTED,
        forms=("text/csv",),
    )
    def get(self, request: Request) -> Response:
        asked = self.parameters
        now = clock.to_datetime(clock.now_ms())
        until = asked["to"] or now
        since = asked["from"] or _midnight(until) - timedelta(days=DEFAULT_DAYS)
        by = tuple(dict.fromkeys(asked["group_by"]))
        _check(since, until, by)
        rows = self._used(since, until, by, now)
        if len(rows) > MOST_ROWS:
            remedy = "Ask for a shorter time, or by fewer things."
            raise invalid([FieldError("group_by", f"makes more than {MOST_ROWS} groups", remedy)])
        items = [_row(row) for row in rows]
        # What nodes have overlaps.
        whole = self._used(since, until, (), now) if By.NODE in by else rows
        total = round(sum(row.gpu_hours for row in whole), 4)
        groups = [one.value for one in by]
        return Response(Usage(since=since, until=until, group_by=groups, gpu_hours=total, items=items))

    def _used(self, since: datetime, until: datetime, by: tuple[By, ...], now: datetime) -> list[Used]:
        teams, seen = self.parameters["team"], self.standing.team_ids
        return used(since, until, by, now=now, team_ids=seen, teams=teams, limit=MOST_ROWS + 1)


def _midnight(at: datetime) -> datetime:
    """A whole day is read from the sums by day."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _row(row: Used) -> UsageRow:
    hours = row.gpu_hours, row.floor_hours, row.burst_hours, row.lost_hours
    cost = None if row.cost is None else str(row.cost)
    return UsageRow(row.team, row.user, row.gpu_type, row.node, row.start, *hours, row.jobs, cost)


def _check(since: datetime, until: datetime, by: tuple[By, ...]) -> None:
    errors = []
    if since >= until:
        errors.append(FieldError("from", "is not before to", "Give an earlier from, or a later to."))
    elif until - since > timedelta(days=MOST_DAYS):
        errors.append(FieldError("from", f"is more than {MOST_DAYS} days before to", "Ask for a shorter time."))
    if By.DAY in by and By.WEEK in by:
        errors.append(FieldError("group_by", "holds day and week", "Give one of the two."))
    if errors:
        raise invalid(errors)
