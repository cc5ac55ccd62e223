"""Incidents: what is wrong now, what was, and what the system did about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.accounts.permissions import Standing, standing_of
from portal.outage_watch import watch
from portal.views import present, starts
from scheduler import clock
from scheduler.checkpoints.selectors import alerts as checkpoint_alerts
from scheduler.incidents import Incident
from scheduler.models import Job
from scheduler.outages import outages
from scheduler.picture import picture
from scheduler.selectors.incidents import LOOK_BACK, Alert, alerts, incidents

SHOWN = 100
WORDS = {
    "RACK": "Rack fell silent",
    "RACK_BLIP": "Rack silent for a while",
    "DOWN": "Host lost",
    "SUSPECT": "Host silent for a while",
    "QUARANTINED": "Host quarantined",
    "FAULTY": "GPU fault",
    "XID": "GPU fault of a program",
    "NOTICE": "Notice of the provider",
}
DOING = {
    "RACK": "Its hosts were given up once the silence was believed; their gangs were released whole and queued again.",
    "RACK_BLIP": "Taken for the network’s fault: what ran there was left alone, and nothing new was started.",
    "DOWN": "Its gangs were released whole and wait for, or have, other places.",
    "SUSPECT": "It took no new work until it was heard of again; what ran there was left alone.",
    "QUARANTINED": "It took no new work, longer with each relapse; then it works on probation, or is released.",
    "FAULTY": "The GPU takes no work; the gang that held it was released and queued again.",
    "XID": "The gang on the GPU was released whole and started again from its checkpoint; the GPU works on.",
    "NOTICE": "The host took no new work.",
}
NOBODY_THERE = {
    "DOWN": "It takes no work until it is heard of again.",
    "RACK": "Its hosts take no work until they are heard of again.",
    "FAULTY": "The GPU takes no work.",
    "NOTICE": "The host takes no new work.",
}
"""What was done where no job had to be stopped."""
REMEDIES = {
    "reset_gpu": "It works again once it has been reset.",
    "reboot_host": "Its host has to be restarted: it takes no new work, and its gangs move as room is found.",
    "workflow": "A person has to look at it before it works again.",
}
NOTICES = {
    "terminate": (
        "Spot host taken back",
        "Its gangs were told to save at once, other places were booked for them, and they went on there.",
    ),
    "rebalance": (
        "Spot host may be taken back",
        "It takes no new work; its gangs were asked to save and move as soon as there is room elsewhere.",
    ),
    "maintenance": (
        "Host to be maintained by its provider",
        "It takes no new work; its gangs were asked to save and move as soon as there is room, at the latest in time.",
    ),
    "repair": (
        "Host has to be restarted",
        "It takes no new work; its gangs were asked to save and move as soon as there is room elsewhere.",
    ),
    "freeze": (
        "Host to stand still for some seconds",
        "It takes no new work until then; its gangs were asked to save and stay.",
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """An incident as the page shows it. ``jobs`` are (Stopped, Job or None where the reader may not know it)."""

    incident: Incident
    words: str
    where: str
    query: str
    doing: str
    jobs: list[tuple[Any, Job | None, str]]

    @property
    def start_ms(self) -> int:
        return self.incident.start_ms


STORES = {"etcd": "etcd", "postgresql": "PostgreSQL", "redis": "Redis", "s3": "The object storage"}
AWAY = {
    "etcd": "No decisions were made; what ran went on, and jobs that were submitted waited in the outbox.",
    "postgresql": "Nobody could sign in or submit. Decisions went on; their history was copied once it was back.",
    "redis": "Workers were not woken: decisions and history waited. What ran went on, and submissions were kept.",
    "s3": "No logs were taken in and no checkpoints were verified; agents kept their logs until it was back.",
}


@dataclass(frozen=True, slots=True)
class OutageLine:
    """A store that did not answer for a while, and what the system did. ``meanwhile`` counts what happened."""

    start_ms: int
    end_ms: int
    words: str
    doing: str
    meanwhile: str


@login_required
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    now_ms = clock.now_ms()
    past = incidents(timezone.now())
    lines = _lines(past.incidents[:SHOWN], standing_of(request))
    before: list[Line | OutageLine] = [line for line in lines if line.incident.end_ms is not None]
    context = {
        "alerts": [*alerts(picture(), now_ms), *checkpoint_alerts(picture(), now_ms), *_away(), *starts.alerts()],
        "now": [line for line in lines if line.incident.end_ms is None],
        "before": sorted([*before, *_outages()], key=lambda line: -line.start_ms),
        "takeovers": past.takeovers[:10],
        "cut": past.cut or len(past.incidents) > SHOWN,
        "operates": standing_of(request).operates_nodes,
        "freshness": present.freshness(),
        "now_ms": now_ms,
    }
    part = getattr(request, "htmx", False)
    response = render(request, "incidents/live.html" if part else "incidents/page.html", context)
    response["Vary"] = "HX-Request"
    return response


def _away() -> list[Alert]:
    """The stores that do not answer this process now; the live state has an alert of its own."""
    return [
        Alert(f"{STORES[store]} does not answer", AWAY[store], "failed", clock.to_ms(since))
        for store, since in watch.away.items()
        if store != "etcd"
    ]


def _outages() -> list[OutageLine]:
    return [
        OutageLine(
            clock.to_ms(told.outage.start),
            clock.to_ms(told.outage.end),
            f"{STORES[told.outage.store]} did not answer",
            AWAY[told.outage.store],
            _meanwhile(told.accepted, told.ended),
        )
        for told in outages(timezone.now() - LOOK_BACK, SHOWN)
    ]


def _meanwhile(accepted: int, ended: int) -> str:
    """What happened during an outage: ``12 jobs were accepted and 3 attempts ended meanwhile.``"""
    told = [
        f"{accepted} job{' was' if accepted == 1 else 's were'} accepted" if accepted else "",
        f"{ended} attempt{'' if ended == 1 else 's'} ended" if ended else "",
    ]
    said = " and ".join(word for word in told if word)
    return f"{said[0].upper()}{said[1:]} meanwhile." if said else "No job was accepted and none ended meanwhile."


def _lines(found: list[Incident], standing: Standing) -> list[Line]:
    ids = {stopped.job for incident in found for stopped in incident.jobs}
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=ids).select_related("team")}
    return [_line(incident, jobs, standing) for incident in found]


def _line(incident: Incident, jobs: dict[str, Job], standing: Standing) -> Line:
    az, rack = incident.place
    node = incident.nodes[0]
    if incident.kind in ("RACK", "RACK_BLIP"):
        where, query = f"{az} {rack}, {len(incident.nodes)} hosts", f"az={az}&rack={rack}"
    elif incident.gpu is not None:
        where, query = f"{node} GPU {incident.gpu}", f"node={node}"
    else:
        where, query = node, f"node={node}"
    told = []
    for stopped in incident.jobs:
        job = jobs.get(stopped.job)
        seen = job is not None and standing.sees_jobs_of(job.team.name)
        told.append((stopped, job if seen else None, job.team.name if job is not None else ""))
    words, doing = _told(incident)
    return Line(incident, words, where, query, doing, told)


def _told(incident: Incident) -> tuple[str, str]:
    """What it is, and what the system did about it."""
    words, doing = WORDS[incident.kind], DOING[incident.kind]
    if incident.kind == "NOTICE":
        words, doing = NOTICES.get(incident.what, (words, doing))
    if not incident.jobs and (incident.kind != "NOTICE" or incident.what == "terminate"):
        doing = NOBODY_THERE.get(incident.kind, doing)
    remedy = REMEDIES.get(incident.what, "") if incident.kind == "FAULTY" else ""
    return words, f"{doing} {remedy}".strip()
