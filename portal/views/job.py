"""One job: its state and why, its place, its attempts; and what its people may do to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from portal import operations
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing_of
from portal.foreseeing import expected_starts, likely_starts
from portal.operations import Kind
from portal.views import present
from portal.views.jobs import job_seen
from portal.views.operate import reason_of
from portal.views.timeline import Attempt, Whom, attempts, beneficiaries, failure, lost
from scheduler import clock, connections, selectors, services
from scheduler.checkpoints.selectors import checkpoints
from scheduler.core.types import TERMINAL, Phase
from scheduler.eta.telling import last_move
from scheduler.models import Job

MOST_EVENTS = 2000
MOST_CHECKPOINTS = 12


@login_required
@require_safe
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    found = job_seen(request, job_id)
    part = getattr(request, "htmx", False)
    response = render(request, "job/live.html" if part else "job/page.html", _context(request, found))
    response["Vary"] = "HX-Request"
    return response


def _context(request: HttpRequest, found: Job) -> dict[str, Any]:
    standing = standing_of(request)
    now_ms, expected = clock.now_ms(), expected_starts()
    live = None if found.state in TERMINAL else present.live_job(found.pk)
    phase = Phase(live.phase if live is not None else found.state)
    events = list(selectors.job_events(found.pk)[:MOST_EVENTS])
    history = attempts(found.submitted_at, events, _others(standing, beneficiaries(events)))
    allocation = list(live.allocation) if live is not None else _recorded_places(found)
    return {
        "job": found,
        "live": live,
        "phase": phase,
        "over": phase in TERMINAL,
        "attempts": list(reversed(history)),
        "bars": bars(history, now_ms),
        "lost": lost(history),
        "failure": failure(history) if phase is Phase.FAILED else "",
        "racks": by_rack(allocation),
        "hosts": len(allocation),
        "why": present.why(found.pk, now_ms, standing.team_names) if phase is Phase.PENDING else None,
        "expected_ms": expected.start_ms(found.pk, now_ms) if phase is Phase.PENDING else None,
        "forecast_ms": expected.made_ms,
        "likely": likely_starts().of(found.pk, now_ms) if phase is Phase.PENDING else None,
        "moved": last_move(found.pk) if phase is Phase.PENDING else None,
        "started_ms": live.started_ms if live is not None else None,
        "may_submit": standing.may_submit_to(found.team.name),
        "once": connections.ids(),
        "may_act": standing.may_act_on(found.team.name, found.submitted_by_id, found.owner),
        "array_counts": _of_array(found, standing),
        "freshness": present.freshness(),
        "now_ms": now_ms,
        **_checkpoints(found),
    }


def _checkpoints(found: Job) -> dict[str, Any]:
    """The newest of its checkpoints, and what it asked for; nothing of a job that saves nothing."""
    asked = found.core_spec.get("checkpoint")
    if not asked:
        return {}
    shown = checkpoints(found.pk)
    return {
        "saves": {"every": asked.get("every_ms"), "keep": asked.get("retain_last_n", 3)},
        "checkpoints": shown[:MOST_CHECKPOINTS],
        "more_checkpoints": len(shown[MOST_CHECKPOINTS:]),
    }


def _of_array(found: Job, standing: Standing) -> dict[str, int]:
    """How many jobs of its array are in each state."""
    if not found.array_id:
        return {}
    return selectors.state_counts(selectors.JobFilter(array=found.array_id), standing.team_ids)


def _others(standing: Standing, ids: Collection[str]) -> dict[str, Whom]:
    """The jobs with these ids as far as this person may know them."""
    found = {}
    for job_id, one in selectors.jobs_named(ids).items():
        seen = standing.sees_jobs_of(one.team.name)
        found[job_id] = Whom(job_id if seen else None, one.name if seen else None, one.team.name, one.priority)
    return found


def _recorded_places(found: Job) -> list[dict[str, Any]]:
    """The last allocation as history has it, empty once the job holds nothing; racks are the live state's to know."""
    return [] if found.state in TERMINAL or found.state == Phase.PENDING else list(found.allocation)


def by_rack(allocation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The hosts of a gang by zone and rack: ``[{"az", "rack", "gpus", "hosts": [{"node", "gpus"}]}]``."""

    def rack_of(part: dict[str, Any]) -> tuple[str, str]:
        return part.get("az") or "", part.get("rack") or ""

    found = []
    for (az, rack), parts in groupby(sorted(allocation, key=lambda part: (*rack_of(part), part["node"])), rack_of):
        hosts = list(parts)
        found.append({"az": az, "rack": rack, "hosts": hosts, "gpus": sum(len(part["gpus"]) for part in hosts)})
    return found


def bars(history: list[Attempt], now_ms: int) -> list[dict[str, Any]]:
    """The whole life of a job as one strip: ``{"state", "x", "width", "span"}``, in thousandths of its length."""
    now = clock.to_datetime(now_ms)
    spans = [span for attempt in history for span in attempt.spans(now)]
    if not spans:
        return []
    first, last = spans[0][1], spans[-1][2]
    whole = max((last - first).total_seconds(), 0.001)
    return [
        {
            "state": state,
            "x": round(1000 * (start - first).total_seconds() / whole, 2),
            "width": round(max(1000 * (end - start).total_seconds() / whole, 1.5), 2),
            "span": end - start,
        }
        for state, start, end in spans
    ]


def _wish(job_id: str, request: HttpRequest, kind: Kind, ask: Callable[[str], Job], words: str) -> HttpResponse:
    """Ask something of a job for the person behind the request, tell them, and go back to the job."""
    found = job_seen(request, job_id)
    if not standing_of(request).may_act_on(found.team.name, found.submitted_by_id, found.owner):
        raise PermissionDenied(f"Only its owner, an admin of {found.team.name} or on-call may do that to this job.")
    try:
        operations.on_job(cast(User, request.user), kind, found, ask, reason_of(request))
    except services.AlreadyOver:
        messages.warning(request, f"{found.name} was over already.")
    else:
        messages.success(request, words.format(found.name))
    return redirect("job", found.pk)


@login_required
@require_POST
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    return _wish(job_id, request, Kind.JOB_CANCEL, services.cancel, "{} is being cancelled.")


@login_required
@require_POST
def hold(request: HttpRequest, job_id: str) -> HttpResponse:
    return _wish(
        job_id, request, Kind.JOB_HOLD, services.hold, "{} is held: it starts no attempt until it is released."
    )


@login_required
@require_POST
def release(request: HttpRequest, job_id: str) -> HttpResponse:
    return _wish(job_id, request, Kind.JOB_RELEASE, services.release, "{} is released.")
