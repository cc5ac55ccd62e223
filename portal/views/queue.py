"""The queue: who waits, in which order, and why."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.accounts.permissions import standing_of
from portal.live.queue import SHOWN, key_of
from portal.views import present
from portal.views.words import NOT_LOOKED_AT, REASON_WORDS
from scheduler import clock


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    standing = standing_of(request)
    # Read with every name, as the socket's keys are made from them; what this person may not know goes at once.
    found = present.queue(None, SHOWN)
    rows = []
    for row in found.rows if found else ():
        seen = standing.sees_jobs_of(row.team)
        rows.append({"row": row, "key": key_of(str(row.id)), "seen": seen})
    context = {
        "queue": found,
        "rows": rows,
        "freshness": present.freshness(),
        "reasons": {**REASON_WORDS, "": NOT_LOOKED_AT},
        "now_ms": clock.now_ms(),
    }
    return render(request, "queue/page.html", context)
