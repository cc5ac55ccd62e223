"""What becomes of a job that was submitted before: other values, or the same once more."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from portal import amending, submission
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.forms.change import ChangeForm
from portal.views import present
from portal.views.jobs import job_seen
from portal.views.operate import reason_of
from scheduler import clock, services
from scheduler.core.types import HOLDING, TERMINAL, Phase
from scheduler.models import Job


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, job_id: str) -> HttpResponse:
    """The form with the values as they are; a POST changes those that differ."""
    found = job_seen(request, job_id)
    standing = standing_of(request)
    if not standing.may_act_on(found.team.name, found.submitted_by_id, found.owner):
        raise PermissionDenied(f"Only its owner, an admin of {found.team.name} or on-call may change this job.")
    live = None if found.state in TERMINAL else present.live_job(found.pk)
    phase = Phase(live.phase if live is not None else found.state)
    if phase in TERMINAL:
        messages.warning(request, f"{found.name} is over: nothing of it can be changed.")
        return redirect("job", found.pk)
    form = ChangeForm(found, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid() and _done(request, found, phase, form):
        return redirect("job", found.pk)
    context = {
        "job": found,
        "form": form,
        "holds": phase in HOLDING,
        "may_have_longer": amending.may_have_longer(standing, found, phase),
        "started_ms": live.started_ms if live is not None else None,
        "own": found.submitted_by_id == request.user.pk or found.owner.casefold() == standing.email.casefold(),
        "now_ms": clock.now_ms(),
    }
    return render(request, "job/change.html", context, status=422 if form.errors else 200)


def _done(request: HttpRequest, found: Job, phase: Phase, form: ChangeForm) -> bool:
    """Change it and say so; False where something was refused, which the form then tells."""
    assert form.asked is not None
    user = cast(User, request.user)
    try:
        changed = amending.change(user, standing_of(request), found, phase, form.asked, reason_of(request))
    except submission.Invalid as refused:
        for error in refused.errors:
            form.tell(error)
        return False
    except services.AlreadyOver:
        messages.warning(request, f"{found.name} was over already.")
        return True
    said = ", ".join(str(form.fields[name].label).partition(",")[0].lower() for name in form.changed_data)
    messages.success(request, f"{changed.name}: {said} changed." if said else "Nothing was changed.")
    return True


@login_required
@require_POST
def again(request: HttpRequest, job_id: str) -> HttpResponse:
    """The same job once more, as the person behind the request may submit it today."""
    found = job_seen(request, job_id)
    user = cast(User, request.user)
    try:
        made = submission.submit(user, submission.read(user, found.spec), _once(request))
    except submission.Invalid as refused:
        told = "; ".join(f"{error.field or 'the job'} {error.reason}. {error.remedy}" for error in refused.errors)
        messages.error(request, f"It cannot be submitted as it was: {told}")
        return redirect(f"{reverse('submit')}?from={found.pk}")
    except services.Conflict:
        messages.error(request, "This page was sent before for another job. Load it again, then submit.")
        return redirect("job", found.pk)
    messages.success(request, f"{made.job.name} is in the queue once more.")
    return redirect("job", made.job.pk)


def _once(request: HttpRequest) -> str | None:
    """The page's own key: a double click makes one job."""
    return request.POST.get("once", "").replace("\x00", "")[:64] or None
