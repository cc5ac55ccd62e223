"""The start page: is my job running or why not, what is the queue like, is anything on fire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import Standing, standing_of
from portal.views import present
from scheduler import clock, selectors
from scheduler.core.types import TERMINAL, HostState
from scheduler.models import LIVE_STATES

SHOWN = 8
ENDED = tuple(phase.value for phase in TERMINAL)
TROUBLE = (HostState.DOWN, HostState.SUSPECT, HostState.QUARANTINED)
"""States that nobody asked for; a cordon or a drain is somebody's wish."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that somebody should look at. ``query`` narrows the table of hosts to it; empty: nothing to open."""

    words: str
    state: str
    query: str = ""


@login_required
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    fleet = present.fleet()
    context = {
        **_own(standing),
        "operates": standing.operates_nodes,
        "fleet": fleet,
        "queue": present.queue(standing.team_names, limit=5),
        "troubles": troubles(fleet),
        "freshness": present.freshness(),
        "now_ms": clock.now_ms(),
    }
    response = render(request, "home/live.html" if getattr(request, "htmx", False) else "home/page.html", context)
    response["Vary"] = "HX-Request"
    return response


def _own(standing: Standing) -> dict[str, Any]:
    """One's own jobs; for those who answer for others, everybody's that they see."""
    owner = "" if standing.answers_for_others else standing.email
    live = selectors.JobFilter(owner=owner, states=LIVE_STATES)
    counts = selectors.state_counts(live, standing.team_ids)
    return {
        "everybody": standing.sees_all,
        "others": standing.answers_for_others,
        "jobs": list(selectors.jobs(live, standing.team_ids)[:SHOWN]),
        "ended": list(selectors.jobs(selectors.JobFilter(owner=owner, states=ENDED), standing.team_ids)[:5]),
        "running": sum(counts.get(state, 0) for state in ("RUNNING", "STOPPING")),
        "starting": counts.get("STARTING", 0),
        "waiting": counts.get("PENDING", 0),
    }


def troubles(fleet: selectors.ClusterSummary | None) -> list[Trouble]:
    """What is wrong with the fleet now, the worst first."""
    if fleet is None:
        return [Trouble("This server has not loaded the live state yet", "suspect")]
    found = [] if fleet.fresh else [Trouble("The live state cannot be read: what is shown may be old", "failed")]
    for state in TROUBLE:
        hosts = fleet.hosts.get(state.value, 0)
        if hosts:
            words = f"{hosts} host{'' if hosts == 1 else 's'} {state.value.lower()}"
            found.append(Trouble(words, state.value.lower(), f"state={state.value}"))
    faulty = sum(gpus.faulty for gpus in fleet.gpus.values())
    if faulty:
        found.append(Trouble(f"{faulty} GPU{'' if faulty == 1 else 's'} faulty", "failed"))
    return found
