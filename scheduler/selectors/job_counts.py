"""How many jobs there are of each state: exact, and without looking at the jobs one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import QuerySet, Sum, Value
from django.db.models.functions import Upper

from scheduler.core.types import Phase
from scheduler.models import Job, JobCount
from scheduler.selectors.jobs import JobFilter, jobs

MOST = 1000
"""Where a text or a span of time is looked for, no state is counted further than this."""


@dataclass(frozen=True, slots=True)
class Counts:
    """``states``: state → jobs, without those that have none. A state in ``more`` has at least as many."""

    states: dict[str, int]
    more: frozenset[str] = frozenset()


def counts(wanted: JobFilter, team_ids: Collection[int] | None) -> Counts:
    """How many of the jobs wanted are in each state. One query, whose cost is that of the kinds, not of the jobs."""
    if wanted.text or wanted.since or wanted.until or wanted.array:
        return _looked_for(wanted, team_ids)
    kinds = JobCount.objects.all() if team_ids is None else JobCount.objects.filter(team_id__in=team_ids)
    if wanted.teams:
        kinds = kinds.filter(team__name__in=wanted.teams)
    if wanted.owner:
        kinds = kinds.filter(owner=Upper(Value(wanted.owner)))
    if wanted.states:
        kinds = kinds.filter(state__in=wanted.states)
    if wanted.priorities:
        kinds = kinds.filter(priority__in=wanted.priorities)
    if wanted.gpu_type:
        kinds = kinds.filter(gpu_type=wanted.gpu_type)
    summed = kinds.values_list("state").annotate(n=Sum("jobs")).order_by()
    return Counts({state: n for state, n in summed if n})


def state_counts(wanted: JobFilter, team_ids: Collection[int] | None) -> dict[str, int]:
    """The numbers alone."""
    return counts(wanted, team_ids).states


def _looked_for(wanted: JobFilter, team_ids: Collection[int] | None) -> Counts:
    """Count what is found, each state by itself and up to a bound, so that a word that is everywhere costs no more."""
    found = jobs(wanted, team_ids).order_by()

    def some(state: str) -> QuerySet[Job, str]:
        return found.filter(state=state).values_list("state", flat=True)[: MOST + 1]

    first, *others = (some(state.value) for state in Phase)
    seen: dict[str, int] = {}
    for state in first.union(*others, all=True):
        seen[state] = seen.get(state, 0) + 1
    return Counts({state: min(n, MOST) for state, n in seen.items()}, frozenset(s for s, n in seen.items() if n > MOST))
