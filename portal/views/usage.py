"""Usage: GPU-hours by team, person and type over days or weeks, as a plot, a table and CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import Standing, standing_of
from portal.usage_csv import to_csv
from portal.views import budgets
from portal.views.quotas import may_edit
from quotas import selectors
from scheduler import clock
from scheduler.selectors.usage import By, Used, used

SERIES = 7
"""Drawn one by one, the largest first; what remains is one more."""
MOST_DAYS = 400
LIMIT = 20_000
MOST_PARTS = 100
REST = "all others"
WORDS = {By.TEAM: "team", By.USER: "person", By.GPU_TYPE: "GPU type"}
HEIGHT, WIDTH = 240, 960


@dataclass(frozen=True, slots=True)
class Asked:
    since: datetime
    until: datetime
    by: By
    step: By
    team: str


@dataclass(frozen=True, slots=True)
class Part:
    """GPU-hours of one team, person or type over all of the time; ``cost`` None where a part of it has no price."""

    name: str
    floor: float
    burst: float
    lost: float
    jobs: int
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a stacked bar. Lengths are of the plot's own, ``HEIGHT`` by ``WIDTH``."""

    series: int
    x: float
    y: float
    width: float
    height: float
    words: str


@login_required
@require_safe
def usage(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    now = clock.to_datetime(clock.now_ms())
    asked = read(request, now)
    rows = used(
        asked.since,
        asked.until,
        [asked.by, asked.step],
        now=now,
        team_ids=standing.team_ids,
        teams=[asked.team] if asked.team else [],
        limit=LIMIT,
    )
    if request.GET.get("format") == "csv":
        return _csv(rows, asked)
    return render(request, "quotas/usage.html", _context(rows, asked, standing, now))


def read(request: HttpRequest, now: datetime) -> Asked:
    """What the address asks for; what it does not say, or says wrongly, is the last four weeks by team and week."""
    until = _day(request.GET.get("to", ""))
    until = until + timedelta(days=1) if until is not None else now
    since = _day(request.GET.get("from", "")) or _midnight(until - timedelta(days=28))
    if not timedelta() < until - since <= timedelta(days=MOST_DAYS):
        since = _midnight(until - timedelta(days=28))
    by = request.GET.get("by", "")
    step = By.DAY if request.GET.get("step") == By.DAY else By.WEEK
    team = request.GET.get("team", "").replace("\x00", "")[:64]
    return Asked(since, until, By(by) if by in WORDS else By.TEAM, step, team)


def _day(typed: str) -> datetime | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", typed, re.ASCII):
        return None
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=UTC)
    except ValueError:
        return None


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _csv(rows: list[Used], asked: Asked) -> HttpResponse:
    response = HttpResponse(to_csv(rows, [asked.by, asked.step]), content_type="text/csv; charset=utf-8")
    name = f"gangway-usage-{asked.since.date()}-{asked.until.date()}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _context(rows: list[Used], asked: Asked, standing: Standing, now: datetime) -> dict[str, Any]:
    tree = selectors.tree()
    teams = [node.name for node in selectors.teams(tree)]
    starts, series, cells = table(rows, asked)
    highest = max((sum(cells.get((name, start), 0.0) for name in series) for start in starts), default=0.0)
    return {
        "asked": asked,
        "last_day": asked.until - timedelta(microseconds=1),
        "choices": [(by.value, word) for by, word in WORDS.items()],
        "teams": teams if standing.sees_all else [team for team in teams if team in standing.member_of],
        "starts": starts,
        "series": [{"name": name, "hours": _total(cells, name), "at": at} for at, name in enumerate(series)],
        "lines": [
            {"start": start, "hours": [cells.get((name, start), 0.0) for name in series]}
            for start in starts
            if any((name, start) in cells for name in series)
        ],
        "blocks": blocks(starts, series, cells, highest),
        "highest": highest,
        "half": highest / 2,
        "hours": sum(cells.values()),
        "height": HEIGHT,
        "width": WIDTH,
        "may_edit": may_edit(tree, standing),
        "cut": len(rows) >= LIMIT,
        "parts": parts(rows, asked.by),
        "near": [one for one in budgets.seen(standing, tree, now) if one.warns],
    }


def parts(rows: list[Used], by: By) -> list[Part]:
    """What each team, person or type held in all, the largest first."""
    found: dict[str, list[Used]] = {}
    for row in rows:
        found.setdefault(_name(row, by), []).append(row)
    sums = [_part(name, some) for name, some in found.items()]
    return sorted(sums, key=lambda one: (-(one.floor + one.burst + one.lost), one.name))[:MOST_PARTS]


def _part(name: str, rows: list[Used]) -> Part:
    costs = [row.cost for row in rows if row.cost is not None]
    return Part(
        name,
        sum(row.floor_hours for row in rows),
        sum(row.burst_hours for row in rows),
        sum(row.lost_hours for row in rows),
        sum(row.jobs for row in rows),
        sum(costs, Decimal()) if len(costs) == len(rows) else None,
    )


def _total(cells: dict[tuple[str, datetime], float], name: str) -> float:
    return sum(hours for (one, _), hours in cells.items() if one == name)


def table(rows: list[Used], asked: Asked) -> tuple[list[datetime], list[str], dict[tuple[str, datetime], float]]:
    """Every day or week asked for, the series by size, and the GPU-hours of each (series, start)."""
    totals: dict[str, float] = {}
    for row in rows:
        totals[_name(row, asked.by)] = totals.get(_name(row, asked.by), 0.0) + row.gpu_hours
    largest = sorted(totals, key=lambda name: (-totals[name], name))
    alone = largest if len(largest) <= SERIES + 1 else largest[:SERIES]
    series = alone if len(alone) == len(largest) else [*alone, REST]
    cells: dict[tuple[str, datetime], float] = {}
    for row in rows:
        if row.start is not None:
            name = _name(row, asked.by)
            place = (name if name in alone else REST, row.start)
            cells[place] = cells.get(place, 0.0) + row.gpu_hours
    return _starts(asked), series, cells


def _starts(asked: Asked) -> list[datetime]:
    start, step = _midnight(asked.since), timedelta(days=1)
    if asked.step is By.WEEK:
        start, step = start - timedelta(days=start.weekday()), timedelta(days=7)
    found = []
    while start < asked.until:
        found.append(start)
        start += step
    return found


def _name(row: Used, by: By) -> str:
    return {By.TEAM: row.team, By.USER: row.user, By.GPU_TYPE: row.gpu_type}[by] or "unknown"


def blocks(
    starts: list[datetime], series: list[str], cells: dict[tuple[str, datetime], float], highest: float
) -> list[Block]:
    """The plot: a bar a start, the largest series at the bottom."""
    found: list[Block] = []
    if not highest:
        return found
    pitch = WIDTH / len(starts)
    for place, start in enumerate(starts):
        top = float(HEIGHT)
        for at, name in enumerate(series):
            hours = cells.get((name, start), 0.0)
            height = hours / highest * HEIGHT
            top -= height
            if hours:
                words = f"{name}, {start:%d %b}: {hours:,.1f} GPU-hours"
                x, width = place * pitch + pitch * 0.1, pitch * 0.8
                found.append(Block(at, round(x, 2), round(top, 2), round(width, 2), round(height, 2), words))
    return found
