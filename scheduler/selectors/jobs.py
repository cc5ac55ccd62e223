"""Jobs and their history as PostgreSQL knows them: lists, one job, its events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler.models import Job, JobEvent


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list of jobs is narrowed to; an empty field narrows nothing.

    ``teams`` and ``owner`` are names, ``priorities`` 0 to 3, ``text`` is looked for in name and id, ``since``
    (inclusive) and ``until`` (exclusive) bound the time of submission, ``array`` is the id of an array.
    """

    teams: Sequence[str] = ()
    owner: str = ""
    states: Sequence[str] = ()
    priorities: Sequence[int] = ()
    gpu_type: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    array: str = ""


def jobs(wanted: JobFilter, team_ids: Collection[int] | None) -> QuerySet[Job]:
    """The jobs wanted, newest first, each with its team: one query however many.

    ``team_ids`` are the teams whose jobs the asker may see; None: every team's.
    """
    found = visible_jobs(team_ids)
    if wanted.teams:
        found = found.filter(team__name__in=wanted.teams)
    if wanted.owner:
        found = found.filter(owner__iexact=wanted.owner)
    if wanted.states:
        found = found.filter(state__in=wanted.states)
    if wanted.priorities:
        found = found.filter(priority__in=wanted.priorities)
    if wanted.gpu_type:
        found = found.filter(gpu_type=wanted.gpu_type)
    if wanted.text:
        found = found.filter(Q(name__icontains=wanted.text) | Q(id__startswith=wanted.text.upper()))
    if wanted.array:
        found = found.exclude(array_id="").filter(array_id=wanted.array)
    if wanted.since:
        found = found.filter(submitted_at__gte=wanted.since)
    if wanted.until:
        found = found.filter(submitted_at__lt=wanted.until)
    return found


def visible_jobs(team_ids: Collection[int] | None) -> QuerySet[Job]:
    """Every job of these teams (None: of all), newest first, with its team. ``.get(id=…)`` is how one is looked up."""
    found = Job.objects.select_related("team").order_by("-submitted_at", "-id")
    return found if team_ids is None else found.filter(team_id__in=team_ids)


def jobs_named(ids: Collection[str]) -> dict[str, Job]:
    """The jobs with these ids, whoever may see them, each with its team; those that there are not are left out."""
    return Job.objects.select_related("team").in_bulk(list(ids)) if ids else {}


def job_events(job_id: str) -> QuerySet[JobEvent]:
    """A job's history, oldest first."""
    return JobEvent.objects.filter(job_id=job_id).order_by("revision", "position")


def node_events(node: str) -> QuerySet[JobEvent]:
    """What happened on a node itself (its health, its GPUs), newest first."""
    return JobEvent.objects.filter(node=node).order_by("-at", "-id")
