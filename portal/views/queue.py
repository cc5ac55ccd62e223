"""The queue: who waits, in which order, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import Standing, standing_of
from portal.foreseeing import expected_starts, likely_starts
from portal.live.queue import SHOWN, key_of
from portal.views import present
from portal.views.words import NOT_LOOKED_AT, REASON_WORDS
from scheduler import clock
from scheduler.core.types import Reason
from scheduler.selectors import InTheWay, Queue, QueueRow

ORDERS = {"": "As they are tried", "age": "Oldest first"}


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """``?team=``, ``?type=`` and ``?why=`` narrow the rows, ``?order=age`` puts the oldest first."""
    standing = standing_of(request)
    if getattr(request, "htmx", False):
        context = {"holds": _holds(standing, present.queue(None, SHOWN)), "demand": _demand(), "now_ms": clock.now_ms()}
        return render(request, "queue/holds.html", context)
    wanted = {name: request.GET.get(name, "").replace("\x00", "") for name in ("team", "type", "why", "order")}
    # Read with every name, as the socket's keys are made from them; what this person may not know goes at once.
    found = present.queue(None, SHOWN, expected=expected_starts(), likely=likely_starts())
    reasons = {**REASON_WORDS, "": NOT_LOOKED_AT}
    rows = _wanted(found.rows if found else (), wanted)
    context = {
        "queue": found,
        "rows": [{"row": row, "key": key_of(str(row.id)), "seen": standing.sees_jobs_of(row.team)} for row in rows],
        "narrowed": any(wanted[name] for name in ("team", "type", "why")),
        "wanted": wanted,
        "choices": _choices(found, reasons, wanted),
        "holds": _holds(standing, found),
        "demand": _demand(),
        "freshness": present.freshness(),
        "reasons": reasons,
        "now_ms": clock.now_ms(),
    }
    return render(request, "queue/page.html", context)


def _wanted(rows: Sequence[QueueRow], wanted: dict[str, str]) -> list[QueueRow]:
    fields = {"team": "team", "type": "gpu_type", "why": "reason"}
    found = [
        row
        for row in rows
        if all(not wanted[name] or getattr(row, field) == wanted[name] for name, field in fields.items())
    ]
    return sorted(found, key=lambda row: row.submitted_ms) if wanted["order"] == "age" else found


def _choices(found: Queue | None, reasons: dict[str, str], wanted: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """What there is to choose from, as (value, words); what was chosen is among it."""
    rows = found.rows if found else ()
    teams = {row.team for row in rows} | {wanted["team"]}
    types = {row.gpu_type for row in rows} | {wanted["type"]}
    whys = {row.reason or "" for row in rows} | {wanted["why"]}
    return {
        "team": [(team, team) for team in sorted(teams - {""})],
        "type": [(kind, kind) for kind in sorted(types - {""})],
        "why": sorted(((why, reasons.get(why, why)) for why in whys - {""}), key=lambda one: one[1]),
        "order": list(ORDERS.items()),
    }


@dataclass(frozen=True, slots=True)
class TeamDemand:
    """What a team has waiting: jobs, GPUs by type in the order of ``Demands.types``, and since when."""

    team: str
    jobs: int
    gpus: list[int]
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class Demands:
    types: list[str]
    teams: list[TeamDemand]

    @property
    def oldest_ms(self) -> int | None:
        return min((one.oldest_ms for one in self.teams), default=None)


def _demand() -> Demands:
    """Those first who ask for most."""
    found = present.demand() or []
    types = sorted({one.gpu_type for one in found})
    teams = []
    for team, group in groupby(found, key=lambda one: one.team):
        parts = {one.gpu_type: one for one in group}
        teams.append(
            TeamDemand(
                team,
                sum(one.jobs for one in parts.values()),
                [parts[kind].gpus if kind in parts else 0 for kind in types],
                min(one.oldest_ms for one in parts.values()),
            )
        )
    return Demands(types, sorted(teams, key=lambda one: (-sum(one.gpus), one.team)))


@dataclass(frozen=True, slots=True)
class Hold:
    """A place that is kept. ``job`` and ``name`` are None where the reader may not know them.

    ``holders`` are who is on its hosts now, those that stay longest first. ``blocks`` counts the waiting jobs of its
    GPU types that are told to wait for such a place: for a larger job, for a reservation, or for a maintenance.
    """

    kind: str
    team: str | None
    job: str | None
    name: str | None
    gpus: int
    hosts: int
    start_ms: int
    end_ms: int | None
    blocks: int
    holders: list[InTheWay]


_KEEPS_OUT = {"gang": Reason.HELD_FOR_LARGER_JOB, "team": Reason.RESERVED, "maintenance": Reason.MAINTENANCE}


def _holds(standing: Standing, found: Queue | None) -> list[Hold]:
    """What is kept free, the earliest first, and how many waiting jobs are told to wait for its kind and type."""
    names = {row.id: row.name for row in found.rows} if found else {}
    types = {row.name: row.gpu_type for row in present.nodes() or ()}
    reasons = Counter((row.reason, row.gpu_type) for row in found.rows) if found else Counter()
    holders, answer = present.in_the_way() or {}, []
    for hold in present.holds() or ():
        held = {types[node] for node, _ in hold["nodes"] if node in types}
        seen = hold["job"] is not None and standing.sees_jobs_of(hold["team"])
        answer.append(
            Hold(
                kind=hold["kind"],
                team=hold["team"],
                job=hold["job"] if seen else None,
                name=names.get(hold["job"], hold["job"]) if seen else None,
                gpus=sum(gpus for _, gpus in hold["nodes"]),
                hosts=len(hold["nodes"]),
                start_ms=hold["start"] * 1000,
                end_ms=None if hold["end"] is None else hold["end"] * 1000,
                blocks=sum(reasons[(_KEEPS_OUT[hold["kind"]].value, gpu_type)] for gpu_type in held),
                holders=holders.get(hold["job"], []),
            )
        )
    return sorted(answer, key=lambda one: one.start_ms)
