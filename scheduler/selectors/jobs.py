"""Jobs and their history as PostgreSQL knows them: lists, one job, its events."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db.models import F, Q, QuerySet, Subquery, Value

from quotas.models import QuotaNode
from scheduler.models import Job, JobEvent

WORD, THREE = re.compile(r"[^\W_]"), re.compile(r"[^\W_]{3}")
BETWEEN_WORDS = "-_./ "


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list of jobs is narrowed to; an empty field narrows nothing.

    ``teams`` and ``owner`` are names, ``priorities`` 0 to 3, ``since`` (inclusive) and ``until`` (exclusive) bound the
    time of submission. ``text`` is looked for in names and at the beginning of ids; without three letters or digits in
    a row, at the beginning of a name's words alone; without any, it is nowhere. ``array`` is the id of an array.
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
        found = found.filter(reduce(or_, map(_of_team, wanted.teams)))
    if wanted.owner:
        found = found.filter(owner__iexact=wanted.owner)
    if wanted.states:
        found = found.filter(state__in=wanted.states)
    if wanted.priorities:
        found = found.filter(priority__in=wanted.priorities)
    if wanted.gpu_type:
        found = found.filter(gpu_type=wanted.gpu_type)
    if wanted.text:
        found = found.filter(_named(wanted.text)) if WORD.search(wanted.text) else found.none()
    if wanted.array:
        found = found.exclude(array_id="").filter(array_id=wanted.array)
    if wanted.since:
        found = found.filter(submitted_at__gte=wanted.since)
    if wanted.until:
        found = found.filter(submitted_at__lt=wanted.until)
    return found


def _of_team(name: str) -> Q:
    """By a look-up of its own: joined, the team would decide in which order the jobs are looked at."""
    return Q(team_id=Subquery(QuotaNode.objects.filter(name=name).values("pk")[:1]))


def _named(text: str) -> Q:
    """What the index of three letters answers: it finds a shorter piece only where a word begins with it."""
    found = Q(id__startswith=text.upper())
    if THREE.search(text):
        return found | Q(name__icontains=text)
    begins = [Q(name__istartswith=text), *(Q(name__icontains=sign + text) for sign in BETWEEN_WORDS)]
    return reduce(or_, begins, found)


def page(
    found: QuerySet[Job], size: int, after: tuple[datetime, str] | None = None, few: bool = False
) -> tuple[list[Job], bool]:
    """At most ``size`` of the jobs in the order of ``jobs``, and whether there are more; ``after`` is the time of
    submission and the id of the last one of the page before. ``few``: they are known to be some thousands at most.

    Which jobs these are is read off an index that holds all that they are chosen by; only those of the page are looked
    at as a whole. From the newest on, until the page is full; where few match that may be all there ever was, so these
    are found by what they are chosen by and sorted.
    """
    if after is not None:
        at, job_id = after
        # The first condition lets the index begin there.
        found = found.filter(submitted_at__lte=at).filter(Q(submitted_at__lt=at) | Q(id__lt=job_id))
    if few:
        # No index has this order, so none is followed for its sake.
        found = found.order_by((F("submitted_at") + Value(timedelta())).desc(), "-id")
    rows = list(visible_jobs(None).filter(pk__in=found.values("pk")[: size + 1]))
    return rows[:size], len(rows) > size


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
