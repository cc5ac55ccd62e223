"""What would become of a job, for the REST interface and the submit form alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

from nodes import selectors as nodes
from portal.accounts.models import User
from portal.accounts.permissions import standing
from portal.submission import Invalid, rights
from quotas import selectors as quotas
from scheduler import clock, requests
from scheduler.core.types import Reason
from scheduler.eta.published import Etas, Likely, alike, etas
from scheduler.expected import Expected, expected
from scheduler.foresight import Foresight, foreseer
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.requests import JobRequest, TeamRights

PREVIEWED = "preview"
"""The id of a job that there is not. Ids of jobs are ULIDs, so none is called so."""
TOLD = frozenset({Reason.NEVER_FITS, Reason.QUOTA_CEILING})
"""What a submission is refused for and a preview tells, with what could run instead."""
MANY = 2**31


def foresee(user: User, body: Any) -> tuple[JobRequest, Foresight, int]:
    """What would become of the job in ``body``, and the time of that in milliseconds. Nothing is kept.

    Raises:
        Invalid: the body is no request, or not one that this person may make.
        StoreUnavailable: the live state was never loaded.
    """
    person = standing(user)
    granted = rights(person, quotas.tree_in_force())
    request = read(body, granted, nodes.largest_zones(), user.email)
    now_ms = clock.now_ms()
    seen = foreseer().look(
        picture(),
        live_policy(),
        request.to_spec(PREVIEWED, now_ms),
        now_ms,
        teams=person.team_names,
        priorities=(0, 1, 2, 3) if granted[request.team].p0 else (1, 2, 3),
        ticking_ms=ticking_ms,
    )
    return request, seen, now_ms


def read(body: Any, granted: Mapping[str, TeamRights], gpu_types: Mapping[str, int], owner: str) -> JobRequest:
    """The request, be it larger than what could ever run.

    Raises:
        Invalid: what else is wrong with it.
    """
    answer = requests.parse(body, granted, gpu_types, owner=owner)
    if isinstance(answer, JobRequest):
        return answer
    others = [error for error in answer if error.code not in TOLD]
    if others:
        raise Invalid(others)
    unbounded = {name: replace(right, ceilings=()) for name, right in granted.items()}
    answer = requests.parse(body, unbounded, dict.fromkeys(gpu_types, MANY), owner=owner)
    if isinstance(answer, JobRequest):
        return answer
    raise Invalid(answer)


def ticking_ms() -> int:
    return int(monotonic() * 1000)


def expected_starts() -> Expected:
    """The forecast as it is published."""
    return expected(ticking_ms)


def likely_of_its_kind(request: JobRequest, now_ms: int) -> Likely | None:
    """What is told of the newest waiting job like the one asked about."""
    with picture().reading() as snapshot:
        return alike(snapshot, likely_starts(), request.to_spec(PREVIEWED, now_ms), now_ms)


def likely_starts() -> Etas:
    """When jobs will start by learned run times, as it was told last."""
    return etas(ticking_ms)
