"""What a job's ranks have written: which logs there are, and one of them whole. Parts come by the REST interface."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from portal.api.agent_logs import archive
from portal.views.jobs import job_seen
from scheduler import connections
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs import reading

MOST = (1 << 31) - 1


@login_required
@require_safe
def index(request: HttpRequest, job_id: str) -> HttpResponse:
    """``{"attempts": [{"number", "ranks": [rank, …]}]}``, the newest first."""
    found = reading.attempts(job_seen(request, job_id).pk)
    return JsonResponse({"attempts": [{"number": one.number, "ranks": one.ranks} for one in found]})


@login_required
@require_safe
def download(request: HttpRequest, job_id: str, attempt: int, rank: int) -> HttpResponse:
    """The log's own bytes, as a file. A browser never shows them as a page."""
    job = job_seen(request, job_id)
    row = reading.find(job.pk, attempt, rank) if attempt <= MOST and rank <= MOST else None
    if row is None:
        raise Http404("This rank has written nothing that was kept.")
    connections.release_database()
    try:
        whole = b"".join(reading.everything(archive(), row))
    except ObjectsUnavailable:
        words = "Logs cannot be read now: object storage does not answer. Try again in a minute.\n"
        return HttpResponse(words, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": "60"})
    name = f"{job.pk}-attempt{attempt}-rank{rank}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(whole, content_type="application/octet-stream", headers=headers)
