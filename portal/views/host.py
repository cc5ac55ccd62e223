"""How one host is: its GPUs' readings, the faults of its GPUs, and what is held against it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from nodes.models import Node
from nodes.telemetry import GpuReading
from portal.accounts.permissions import standing_of
from portal.views import present
from scheduler import clock, selectors
from scheduler.core.types import NoticeKind, Remedy
from scheduler.models import Job

REMEDY_WORDS = {
    Remedy.IGNORE: "nothing to do",
    Remedy.RESTART_APP: "program restarted",
    Remedy.RESET_GPU: "GPU to be reset",
    Remedy.REBOOT_HOST: "host to be restarted",
    Remedy.WORKFLOW: "for a person to look at",
}
NOTICE_WORDS = {
    NoticeKind.TERMINATE: "Its provider takes it away",
    NoticeKind.REBALANCE: "Its provider may take it away soon: its gangs move as room is found",
    NoticeKind.MAINTENANCE: "Its provider will stop it for maintenance: its gangs move as room is found",
    NoticeKind.REPAIR: "It has to be restarted for a broken GPU: its gangs move as room is found",
    NoticeKind.FREEZE: "Its provider will let it stand still for some seconds: its gangs stay",
}
HOT_C = 85.0
"""From here on GPUs of data centres slow down to cool off."""


@login_required
@require_safe
def live(request: HttpRequest, name: str) -> HttpResponse:
    """The part of a host's page that changes by itself."""
    row = Node.objects.filter(pk=name.replace("\x00", ""), removed_at=None).first()
    if row is None:
        raise Http404(f"There is no host {name[:64]}.")
    found = present.node(row.name)
    held = found.held_by if found is not None else ()
    context = {
        "node": row,
        "live": found,
        "teams": {one["id"]: one["team"] for one in held},
        "phases": {one["id"]: one["phase"] for one in held},
        "freshness": present.freshness(),
        "now_ms": clock.now_ms(),
        **health_of(request, row.name, found),
    }
    return render(request, "nodes/live.html", context)


def readings_of(name: str) -> dict[str, Any]:
    """What the GPUs of a host read, by index. One look into Redis."""
    told = selectors.telemetry(name)
    by_gpu: dict[int, GpuReading] = {reading.gpu: reading for reading in told.gpus} if told is not None else {}
    return {"telemetry": told, "readings": by_gpu, "hot_c": HOT_C}


def health_of(request: HttpRequest, name: str, found: selectors.NodeDetail | None) -> dict[str, Any]:
    """What the templates of a host's health show. Three queries, and one look into Redis."""
    faults = selectors.gpu_faults(name)
    failed = [one["job"] for one in found.failures] if found is not None else []
    hindered = [(job, words) for job, words in present.hindrances(name) or ()]
    jobs = _jobs(request, {fault.job for fault in faults} | set(failed) | {job for job, _ in hindered})
    return {
        **readings_of(name),
        "hindered": [(words, jobs.get(job)) for job, words in hindered],
        "faults": [(fault, _remedy(fault.remedy), jobs.get(fault.job)) for fault in faults],
        "changes": selectors.health_changes(name)[:8],
        "notices": [(NOTICE_WORDS[NoticeKind(one["kind"])], one["gone_at_ms"]) for one in found.notices]
        if found
        else [],
        "failed": [(one["at_ms"], jobs.get(one["job"])) for one in found.failures] if found is not None else [],
    }


def _remedy(text: str) -> str:
    """What a fault calls for, in words; as it was written where another version wrote it."""
    return REMEDY_WORDS[Remedy(text)] if text in set(Remedy) else text


def _jobs(request: HttpRequest, ids: set[str]) -> dict[str, Job]:
    """Those of the jobs that the reader may know."""
    standing = standing_of(request)
    rows = Job.objects.filter(pk__in=ids - {""}).select_related("team")
    return {job.pk: job for job in rows if standing.sees_jobs_of(job.team.name)}
