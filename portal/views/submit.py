"""The submit form: empty, copied from an earlier job, filled from pasted JSON, and sent."""

from __future__ import annotations

import json
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from nodes import selectors as nodes
from portal import submission
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.forms.submit import SubmitForm, initial_of
from portal.views.jobs import job_seen
from portal.views.present import fleet
from quotas import selectors as quotas
from scheduler import connections, services
from scheduler.core.types import Hint

DEFAULTS = {
    "priority": "P2",
    "gpu_count": "8",
    "topology_hint": Hint.PREFER_SAME_RACK.value,
    "max_runtime_hours": "24",
    "checkpoint_interval_minutes": "30",
    "checkpoint_retain_last_n": "3",
    "max_restarts": "20",
}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    forms = Forms(request)
    if request.method != "POST":
        return _empty_or_copied(request, forms)
    if "fill" in request.POST:
        return _filled(request, forms)
    form = forms.make(data=request.POST)
    if not form.is_valid() or form.request_made is None:
        return _page(request, form, status=422)
    # The page's own key: the same form sent twice, by a double click or a reload, is one job.
    key = request.POST.get("once", "")[:64] or None
    try:
        submitted = submission.submit(user, form.request_made, key)
    except submission.Invalid as refused:
        for error in refused.errors:
            form.tell(error)
        return _page(request, form, status=422)
    except services.Conflict:
        return _page(request, form, status=409, conflict=True)
    words = f"{submitted.job.name} is in the queue." if submitted.created else f"{submitted.job.name} was sent before."
    messages.success(request, words)
    return redirect("job", submitted.job.pk)


class Forms:
    """Makes forms for one person, with the rights and the fleet of this moment."""

    def __init__(self, request: HttpRequest) -> None:
        self.person = cast(User, request.user).email
        self.rights = submission.rights(standing_of(request), quotas.tree_in_force())
        self.types = nodes.largest_zones()

    def make(self, **more: Any) -> SubmitForm:
        return SubmitForm(rights=self.rights, gpu_types=self.types, person=self.person, **more)

    def blank(self) -> SubmitForm:
        commonest = max(self.types, key=self.types.__getitem__, default="")
        return self.make(initial=DEFAULTS | {"owner": self.person, "gpu_type": commonest})


def _empty_or_copied(request: HttpRequest, forms: Forms) -> HttpResponse:
    if not request.GET.get("from"):
        return _page(request, forms.blank())
    copied = job_seen(request, request.GET["from"])
    return _page(request, forms.make(initial=initial_of(copied.spec)), copied=copied)


def _filled(request: HttpRequest, forms: Forms) -> HttpResponse:
    """The form with what was pasted in it: nothing is submitted yet, and nothing is checked until it is."""
    pasted = request.POST.get("pasted", "")
    try:
        body = json.loads(pasted)
    except (ValueError, RecursionError) as error:
        return _page(request, forms.blank(), pasted=pasted, paste_error=f"This is not JSON: {error}")
    if not isinstance(body, dict):
        return _page(request, forms.blank(), pasted=pasted, paste_error="A job is a JSON object: { … }.")
    return _page(request, forms.make(initial=initial_of(body)))


def _page(request: HttpRequest, form: SubmitForm, status: int = 200, **more: Any) -> HttpResponse:
    context = {"form": form, "once": connections.ids(), "fleet": fleet(), **more}
    return render(request, "submit/page.html", context, status=status)
