"""The list of jobs: one's own, one's teams', or all that one may see. Everything chosen is in the address."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.models import SavedView
from portal.accounts.permissions import Standing, standing_of
from quotas.models import QuotaNode
from scheduler import clock, selectors
from scheduler.core.types import Phase
from scheduler.models import LIVE_STATES, Job

PAGE = 50
FEW = 5000
"""So many jobs are sorted sooner than a million is looked through for them."""
JOB_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)
STATES = {phase.value: phase for phase in Phase}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the address asks for. ``after`` is the id of the last job of the page before."""

    mine: bool
    wanted: selectors.JobFilter
    after: str


@login_required
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    chosen = choose(request.GET, standing)
    counts = _counts(chosen, standing)
    page, more = _page(chosen, standing, counts)
    saved = list(SavedView.objects.filter(user_id=standing.user_id))
    here = _query(request.GET, after="")
    context = {
        "jobs": page,
        "chosen": chosen,
        "counts": counts,
        "teams": _teams(standing),
        "older": _query(request.GET, after=page[-1].id) if more else "",
        "newer": _query(request.GET, after="") if chosen.after else "",
        "narrowed": _narrowed(chosen.wanted, chosen.mine),
        "may_pick": {one.pk for one in page if _may_pick(one, standing)},
        "saved": saved,
        "here": here,
        "is_saved": any(view.query == here for view in saved),
        "now_ms": clock.now_ms(),
    }
    part = getattr(request, "htmx", False) and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    response = render(request, "jobs/results.html" if part else "jobs/page.html", context)
    response["Vary"] = "HX-Request"
    return response


def job_seen(request: HttpRequest, job_id: str) -> Job:
    """The job, if the person behind the request may see it.

    Raises:
        Http404: there is none, as far as this person may know.
    """
    found = None
    if JOB_ID.fullmatch(job_id):
        found = selectors.visible_jobs(standing_of(request).team_ids).filter(pk=job_id).first()
    if found is None:
        raise Http404(f"There is no job {job_id[:32]} that you may see.")
    return found


def choose(query: QueryDict, standing: Standing) -> Chosen:
    """Read the address; what it holds that there is not (a state, a priority) narrows nothing."""
    whose = query.get("whose", "all" if standing.answers_for_others else "mine")
    mine = whose != "all"
    priority = query.get("priority", "")
    wanted = selectors.JobFilter(
        teams=tuple(team for team in [query.get("team", "")] if team),
        owner=standing.email if mine else query.get("owner", "").replace("\x00", "").strip(),
        states=tuple(state for state in query.getlist("state") if state in STATES),
        priorities=(int(priority[1]),) if priority in ("P0", "P1", "P2", "P3") else (),
        gpu_type=query.get("gpu_type", ""),
        text=query.get("q", "").replace("\x00", "").strip(),
        array=query.get("array", "").replace("\x00", ""),
    )
    return Chosen(mine, wanted, query.get("after", ""))


def _page(chosen: Chosen, standing: Standing, counts: list[dict[str, Any]]) -> tuple[list[Job], bool]:
    """The page behind the job ``after``, and whether there is more. A job that is not there starts at the newest."""
    known = sum(one["count"] for one in counts if one["chosen"])
    bounded = any(one["more"] for one in counts if one["chosen"])
    if not known and not bounded:
        return [], False  # to look for what is nowhere costs the most
    found = selectors.jobs(chosen.wanted, standing.team_ids)
    last = None
    if JOB_ID.fullmatch(chosen.after):
        seen = selectors.visible_jobs(standing.team_ids).filter(pk=chosen.after)
        last = seen.values_list("submitted_at", "pk").first()
    return selectors.page(found, PAGE, last, few=known <= FEW and not bounded)


def _counts(chosen: Chosen, standing: Standing) -> list[dict[str, Any]]:
    """How many jobs each state has, under every other filter."""
    found = selectors.counts(replace(chosen.wanted, states=()), standing.team_ids)
    counted = found.states
    everything = {
        "value": "",
        "word": "All",
        "count": sum(counted.values()),
        "more": bool(found.more),
        "chosen": not chosen.wanted.states,
    }
    return [everything] + [
        {
            "value": state,
            "word": state.capitalize(),
            "count": counted.get(state, 0),
            "more": state in found.more,
            "chosen": state in chosen.wanted.states,
        }
        for state in STATES
        if counted.get(state) or state in found.more or state in chosen.wanted.states or state in ("PENDING", "RUNNING")
    ]


def _teams(standing: Standing) -> list[str]:
    """The teams that the list can be narrowed to."""
    leaves = QuotaNode.objects.filter(children=None).order_by("name")
    if standing.team_ids is not None:
        leaves = leaves.filter(pk__in=standing.team_ids)
    return list(leaves.values_list("name", flat=True))


def _may_pick(job: Job, standing: Standing) -> bool:
    """Whether there is anything that this person could do to it together with others."""
    return job.state in LIVE_STATES and standing.may_act_on(job.team.name, job.submitted_by_id, job.owner)


def _narrowed(wanted: selectors.JobFilter, mine: bool) -> bool:
    return bool(
        wanted.teams
        or (wanted.owner and not mine)
        or wanted.states
        or wanted.priorities
        or wanted.gpu_type
        or wanted.text
        or wanted.array
    )


def _query(query: QueryDict, **changes: str) -> str:
    kept = [(name, value) for name, values in query.lists() for value in values if name not in changes]
    return urlencode(kept + [(name, value) for name, value in changes.items() if value])
