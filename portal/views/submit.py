"""The submit form: empty, from a starter, copied from an earlier job, filled from text, tried, and sent."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from portal import submission
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.forms import job_text
from portal.forms.starters import STARTERS, starter
from portal.forms.submit import PLACES, SubmitForm, initial_of
from portal.views.forms import Forms
from portal.views.jobs import job_seen
from portal.views.outlook import panel_of
from portal.views.present import fleet
from scheduler import connections, selectors, services

RECENT = 5


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    forms = Forms(request)
    if request.method != "POST":
        return _begun(request, forms)
    if "fill" in request.POST:
        return _filled(request, forms)
    if "try" in request.POST or "take" in request.POST:
        return _tried(request, forms)
    form = forms.make(data=request.POST)
    if not form.is_valid() or form.request_made is None:
        return _page(request, forms, form, status=422)
    # The page's own key: the same form sent twice, by a double click or a reload, is one job.
    key = request.POST.get("once", "")[:64] or None
    try:
        submitted = submission.submit(user, form.request_made, key)
    except submission.Invalid as refused:
        for error in refused.errors:
            form.tell(error)
        return _page(request, forms, form, status=422)
    except services.Conflict:
        return _page(request, forms, form, status=409, conflict=True)
    words = f"{submitted.job.name} is in the queue." if submitted.created else f"{submitted.job.name} was sent before."
    messages.success(request, words)
    return redirect("job", submitted.job.pk)


def _begun(request: HttpRequest, forms: Forms) -> HttpResponse:
    if request.GET.get("from"):
        copied = job_seen(request, request.GET["from"])
        return _page(request, forms, forms.make(initial=initial_of(copied.spec)), copied=copied)
    begun = starter(request.GET.get("like", ""))
    return _page(request, forms, forms.blank(**(begun.fields if begun is not None else {})), begun=begun)


def _filled(request: HttpRequest, forms: Forms) -> HttpResponse:
    """The form with what was written in it: nothing is submitted yet, and nothing is checked until it is."""
    text = request.POST.get("text", "")
    try:
        body = job_text.read(text)
    except job_text.NoJob as error:
        return _page(request, forms, forms.blank(), text=text, text_error=str(error))
    return _page(request, forms, forms.make(initial=initial_of(body)), text=text)


def _tried(request: HttpRequest, forms: Forms) -> HttpResponse:
    """The form as it was sent, with one alternative taken if one was chosen, and what would become of it."""
    typed = request.POST.copy()
    name, equals, value = typed.get("take", "").partition("=")
    if equals and name in PLACES:
        typed[name] = value
    form = forms.make(initial={name: typed.get(name, "") for name in PLACES})
    return _page(request, forms, form, panel=panel_of(request, forms, typed))


def _page(request: HttpRequest, forms: Forms, form: SubmitForm, status: int = 200, **more: Any) -> HttpResponse:
    mine = selectors.jobs(selectors.JobFilter(owner=forms.person), standing_of(request).team_ids)
    context = {
        "form": form,
        "once": connections.ids(),
        "fleet": fleet(),
        "limits": forms.limits,
        "starters": STARTERS,
        "recent": mine[:RECENT] if forms.person else [],
        **more,
    }
    return render(request, "submit/page.html", context, status=status)
