"""Submitting a job, for the REST interface and the web form alike: the same checks, the same errors, the same job."""

from __future__ import annotations

from typing import Any

from nodes import selectors as nodes
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing
from quotas import selectors as quotas
from quotas.models import QuotaNode
from scheduler import clock, connections, requests, services
from scheduler.budgets import Spent
from scheduler.core.types import QuotaTree, Reason
from scheduler.fields import FieldError
from scheduler.picture import picture
from scheduler.requests import JobRequest, TeamRights


class Invalid(Exception):
    """The request was refused; ``errors`` says why, field by field."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.reason}" for error in errors))
        self.errors = errors


def read(user: User, body: Any) -> JobRequest:
    """The request in ``body`` as ``user`` may make it.

    Raises:
        Invalid: what is wrong with it.
    """
    request = requests.parse(
        body, rights(standing(user), quotas.tree_in_force()), nodes.largest_zones(), owner=user.email
    )
    if isinstance(request, list):
        raise Invalid(request)
    return request


def submit(user: User, request: JobRequest, idempotency_key: str | None) -> services.Submitted:
    """Accept the job.

    Raises:
        Invalid: no fleet as it stands, and no quota, could ever hold it, or the team's budget is used up.
        scheduler.services.Conflict: the key was used for another request.
    """
    team = QuotaNode.objects.get(name=request.team)
    try:
        return services.submit(
            user,
            team,
            request,
            idempotency_key=idempotency_key,
            now_ms=clock.now_ms(),
            ids=connections.ids,
            picture=picture(),
        )
    except services.Refused as error:
        raise Invalid([_refusal(error)]) from error
    except services.OverBudget as error:
        raise Invalid([_over_budget(error.spent)]) from error


def rights(person: Standing, tree: QuotaTree) -> dict[str, TeamRights]:
    """What a person may do in each team of the tree. P0 is granted where every node up to the root grants it."""
    found: dict[str, TeamRights] = {}
    for team in quotas.teams(tree):
        path = quotas.path(tree, team.name)
        found[team.name] = TeamRights(
            may_submit=person.may_submit_to(team.name),
            p0=all(node.p0 for node in path),
            ceilings=tuple((node.name, node.ceiling) for node in path if node.ceiling),
        )
    return found


_REMEDIES = {
    Reason.NEVER_FITS: "Ask for fewer GPUs, for less for each rank, or for a looser topology_hint.",
    Reason.QUOTA_CEILING: "Ask for fewer GPUs, or have the quota raised.",
}


def _refusal(error: services.Refused) -> FieldError:
    """Why a job could never run, as an error of the field that is the first to change."""
    code = error.refusal.code
    return FieldError("resources.gpu_count", error.refusal.text, _REMEDIES[code], code)


def _over_budget(spent: Spent) -> FieldError:
    reason = (
        f"the budget of {spent.node} is used up: {spent.used_hours:,.0f} of {spent.gpu_hours:,} GPU-hours of this "
        f"{spent.period}, and new jobs are stopped at {spent.stop_percent} %"
    )
    remedy = f"Wait until {spent.until:%Y-%m-%d} (UTC), or have the budget raised by an admin above {spent.node}."
    return FieldError("team", reason, remedy, "BUDGET_USED_UP")
