"""The audit: what people did to the fleet and to other people's jobs."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import standing_of
from portal.operations import WORDS, Kind
from scheduler.models import Act

PAGE = 50
DIGITS = 18


@login_required
@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """``?act=`` and ``?by=`` narrow it, ``?before=`` is the id of the last line of the page before."""
    if not standing_of(request).operates_nodes:
        raise PermissionDenied("Only on-call and administrators read the audit.")
    rows = Act.objects.select_related("by").order_by("-pk")
    kind, by, before = (request.GET.get(name, "").replace("\x00", "") for name in ("act", "by", "before"))
    if kind in set(Kind):
        rows = rows.filter(act=kind)
    if by:
        rows = rows.filter(by__username=by)
    if before.isascii() and before.isdecimal() and len(before) <= DIGITS:
        rows = rows.filter(pk__lt=int(before))
    found = list(rows[: PAGE + 1])
    shown = found[:PAGE]
    context = {
        "acts": [(row, WORDS[Kind(row.act)]) for row in shown],
        "kinds": WORDS.items(),
        "kind": kind,
        "by": by,
        "narrowed": bool(kind or by),
        "older": shown[-1].pk if len(found) > PAGE else None,
    }
    return render(request, "audit/page.html", context)
