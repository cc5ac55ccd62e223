"""Several jobs at once: what would be done is shown first, job by job, and then done to those that still allow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from portal import operations, submission
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing_of
from portal.views.jobs import JOB_ID
from quotas import selectors as quotas
from scheduler import selectors, services
from scheduler.amendments import amend
from scheduler.models import LIVE_STATES, Job
from scheduler.requests import TeamRights

MOST = 500
PRIORITIES = ("P0", "P1", "P2", "P3")


@dataclass(frozen=True, slots=True)
class Act:
    """What is asked of each job. ``priority`` is None for a cancel."""

    word: str
    priority: int | None = None

    @property
    def kind(self) -> operations.Kind:
        return operations.Kind.JOB_CANCEL if self.priority is None else operations.Kind.JOB_PRIORITY

    @property
    def ask(self) -> Callable[[str], Job]:
        return services.cancel if self.priority is None else partial(amend, priority=self.priority)


@dataclass(frozen=True, slots=True)
class Line:
    """A job that was picked. ``refusal`` says why nothing is done to it; empty where something is."""

    job: Job
    refusal: str


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    """GET shows what would be done, POST does it. Jobs that the person may not see are left out without a word."""
    chosen = request.POST if request.method == "POST" else request.GET
    back = _back(request, chosen)
    act = _act(chosen)
    lines = _lines(chosen, act, standing_of(request)) if act is not None else []
    if act is None or not lines:
        messages.warning(request, "Pick one or more jobs first, and what to do with them.")
        return redirect(back)
    if request.method == "POST":
        _do(request, act, lines)
        return redirect(back)
    context = {
        "act": act,
        "lines": lines,
        "able": [line for line in lines if not line.refusal],
        "gpus": sum(line.job.gpus for line in lines if not line.refusal),
        "holding": sum(line.job.gpus for line in lines if not line.refusal and line.job.state != "PENDING"),
        "back": back,
        "others": any(not _own(line.job, request) for line in lines if not line.refusal),
    }
    return render(request, "jobs/bulk.html", context)


def _own(job: Job, request: HttpRequest) -> bool:
    user = cast(User, request.user)
    return job.submitted_by_id == user.pk or job.owner.casefold() == user.email.casefold()


def _act(chosen: QueryDict) -> Act | None:
    if chosen.get("act") == "cancel":
        return Act("Cancel")
    if chosen.get("act") == "priority" and chosen.get("priority") in PRIORITIES:
        priority = cast(str, chosen["priority"])
        return Act(f"Change to {priority}", int(priority[1]))
    return None


def _lines(chosen: QueryDict, act: Act, standing: Standing) -> list[Line]:
    picked = [job_id for job_id in chosen.getlist("job")[:MOST] if JOB_ID.fullmatch(job_id)]
    rights = submission.rights(standing, quotas.tree_in_force()) if act.priority == 0 else {}
    return [
        Line(job, _refusal(job, act, standing, rights))
        for job in selectors.visible_jobs(standing.team_ids).filter(pk__in=picked)
    ]


def _refusal(job: Job, act: Act, standing: Standing, rights: dict[str, TeamRights]) -> str:
    if not standing.may_act_on(job.team.name, job.submitted_by_id, job.owner):
        return f"only its owner, an admin of {job.team.name} or on-call may"
    if job.state not in LIVE_STATES:
        return "it is over"
    if act.priority is None:
        return "it is being cancelled already" if job.cancel else ""
    if job.priority == act.priority:
        return f"it has P{act.priority} already"
    if act.priority == 0 and not (job.team.name in rights and rights[job.team.name].p0):
        return f"{job.team.name} has no right to P0"
    return ""


def _do(request: HttpRequest, act: Act, lines: list[Line]) -> None:
    done = 0
    reason = " ".join(request.POST.get("reason", "").replace("\x00", "").split())[:500]
    for line in lines:
        if line.refusal:
            continue
        try:
            operations.on_job(cast(User, request.user), act.kind, line.job, act.ask, reason)
        except services.AlreadyOver:
            continue
        done += 1
    jobs = f"{done} job{'' if done == 1 else 's'}"
    words = (
        f"{jobs} {'is' if done == 1 else 'are'} being cancelled"
        if act.priority is None
        else f"{jobs} moved to P{act.priority}"
    )
    left = len(lines) - done
    tell = messages.success if done else messages.warning
    tell(request, f"{words}; nothing was done to {left}." if left else f"{words}.")


def _back(request: HttpRequest, chosen: QueryDict) -> str:
    """The list that the jobs were picked from."""
    wanted = chosen.get("back", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return wanted if safe and wanted.startswith("/") else reverse("jobs")
