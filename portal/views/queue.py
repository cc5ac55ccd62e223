"""The queue: who waits, in which order, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import Standing, standing_of
from portal.live.queue import SHOWN, key_of
from portal.views import present
from portal.views.words import NOT_LOOKED_AT, REASON_WORDS
from scheduler import clock
from scheduler.core.types import Reason
from scheduler.selectors import Queue


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    if getattr(request, "htmx", False):
        return render(request, "queue/holds.html", {"holds": _holds(standing, present.queue(None, SHOWN))})
    # Read with every name, as the socket's keys are made from them; what this person may not know goes at once.
    found = present.queue(None, SHOWN)
    rows = []
    for row in found.rows if found else ():
        seen = standing.sees_jobs_of(row.team)
        rows.append({"row": row, "key": key_of(str(row.id)), "seen": seen})
    context = {
        "queue": found,
        "rows": rows,
        "holds": _holds(standing, found),
        "freshness": present.freshness(),
        "reasons": {**REASON_WORDS, "": NOT_LOOKED_AT},
        "now_ms": clock.now_ms(),
    }
    return render(request, "queue/page.html", context)


@dataclass(frozen=True, slots=True)
class Hold:
    """A place that is kept. ``job`` and ``name`` are None where the reader may not know them.

    ``blocks`` counts the waiting jobs of its GPU types that are told to wait for such a place: for a larger job, for a
    reservation, or for a maintenance.
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


_KEEPS_OUT = {"gang": Reason.HELD_FOR_LARGER_JOB, "team": Reason.RESERVED, "maintenance": Reason.MAINTENANCE}


def _holds(standing: Standing, found: Queue | None) -> list[Hold]:
    """What is kept free, the earliest first, and how many waiting jobs are told to wait for its kind and type."""
    names = {row.id: row.name for row in found.rows} if found else {}
    types = {row.name: row.gpu_type for row in present.nodes() or ()}
    reasons = Counter((row.reason, row.gpu_type) for row in found.rows) if found else Counter()
    answer = []
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
            )
        )
    return sorted(answer, key=lambda one: one.start_ms)
