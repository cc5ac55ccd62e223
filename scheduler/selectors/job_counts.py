"""How many jobs there are of each state: exact, and without looking at the jobs one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, Sum, Value
from django.db.models.functions import Upper

from scheduler.core.types import TERMINAL
from scheduler.models import LIVE_STATES, JobCount
from scheduler.selectors.jobs import JobFilter, jobs

OVER = tuple(sorted(phase.value for phase in TERMINAL))
MOST = 5000
"""Where a text or a span of time is looked for, no more jobs that are over are counted than this."""


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
    """Count what is found: of what lives all, since that is little; of what is over up to a bound, so that a word that
    is everywhere costs no more."""
    found = jobs(wanted, team_ids).order_by()
    alive = found.filter(state__in=LIVE_STATES).values_list("state").annotate(n=Count("pk"))
    over = found.filter(state__in=OVER).annotate(n=Value(1)).values_list("state", "n")[: MOST + 1]
    seen: dict[str, int] = {}
    for state, n in alive.union(over, all=True):
        seen[state] = seen.get(state, 0) + n
    too_many = sum(seen.get(state, 0) for state in OVER) > MOST
    return Counts(seen, frozenset(OVER) if too_many else frozenset())
