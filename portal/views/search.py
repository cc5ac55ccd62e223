"""One search over jobs, hosts, teams and people: what one may see of each."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from nodes.models import Node
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing_of
from portal.views.jobs import JOB_ID
from quotas.models import QuotaNode
from scheduler import clock, selectors

SHOWN = 12
"""Of each kind; the lists behind them show the rest."""


@login_required
@require_safe
def search(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    text = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:100]
    if JOB_ID.fullmatch(text.upper()) and selectors.visible_jobs(standing.team_ids).filter(pk=text.upper()).exists():
        return redirect("job", text.upper())
    found: dict[str, Any] = {}
    if text:
        wanted = selectors.JobFilter(text=text)
        found = {
            "jobs": selectors.page(selectors.jobs(wanted, standing.team_ids), SHOWN)[0],
            "hosts": list(Node.objects.filter(name__icontains=text)[:SHOWN]),
            "teams": list(QuotaNode.objects.filter(name__icontains=text, children=None)[:SHOWN]),
            "people": _people(text, standing),
        }
    context = {"text": text, "shown": SHOWN, "nothing": not any(found.values()), "now_ms": clock.now_ms(), **found}
    return render(request, "search/page.html", context)


def _people(text: str, standing: Standing) -> list[User]:
    """People by name or address: those of one's own teams, and all for who sees all."""
    fields = ("username", "first_name", "last_name", "email")
    found = User.objects.filter(reduce(operator.or_, (Q(**{f"{field}__icontains": text}) for field in fields)))
    if standing.team_ids is not None:
        found = found.filter(Q(teams__in=standing.team_ids) | Q(pk=standing.user_id)).distinct()
    return list(found.filter(is_active=True).order_by("username").prefetch_related("teams")[:SHOWN])
