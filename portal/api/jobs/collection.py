"""`jobs`: submit one, list many."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, cast

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from portal import submission
from portal.accounts.models import User
from portal.api.answers import Accepted, JobPage
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.jobs.representation import expected_start, queue_position, summary
from portal.api.problems import Problem, invalid
from portal.api.query import CURSOR, Moment, Query, Several, from_cursor, limit, one_of, to_cursor
from scheduler import requests, selectors, services
from scheduler.core.types import Phase
from scheduler.fields import Choice, FieldError, Text
from scheduler.job_fields import Priority

WANTED = Query(
    {
        "team": (Several(Text(64)), ()),
        "owner": (Text(254), ""),
        "state": (one_of(Choice(Phase)), ()),
        "priority": (one_of(Choice(Priority)), ()),
        "gpu_type": (Text(32), ""),
        "q": (Text(128), ""),
        "array": (Text(32), ""),
        "since": (Moment(), None),
        "until": (Moment(), None),
        "limit": limit(200, 50),
        "cursor": (CURSOR, None),
    }
)

_KEY = r"[\x21-\x7e]{1,255}"
_KEY_HEADER = OpenApiParameter(
    "Idempotency-Key",
    type={"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    location="header",
    description="The same key of a team with the same body answers the same job; with another body, 409.",
)


class Jobs(Endpoint):
    query = {"GET": WANTED}

    @describe("listJobs", "List jobs, newest first", JobPage, query=WANTED)
    def get(self, request: Request) -> Response:
        asked = self.parameters
        found = selectors.jobs(_filter(asked), self.standing.team_ids)
        after = _cursor(asked["cursor"]) if asked["cursor"] is not None else None
        page, more = selectors.page(found, asked["limit"], after)
        cursor = to_cursor(page[-1].submitted_at.isoformat(), page[-1].pk) if more else None
        return Response(JobPage([summary(job) for job in page], cursor))

    @describe(
        "submitJob",
        "Submit a job",
        Accepted,
        status=201,
        body=requests.schema(),
        headers=(_KEY_HEADER,),
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        key = _idempotency_key(request)
        user = cast(User, request.user)
        try:
            submitted = submission.submit(user, submission.read(user, request.data), key)
        except submission.Invalid as error:
            raise invalid(error.errors) from error
        except services.Conflict as error:
            raise Problem(409, f"{error}.", kind="idempotency-conflict") from error
        job = submitted.job
        waiting = job.state == Phase.PENDING
        place, eta = (queue_position(job), expected_start(job.pk)) if waiting else (None, None)
        answer = Accepted(job.pk, job.name, job.team.name, job.state, place, eta, job.array_id or None)
        headers = {"Location": request.build_absolute_uri(f"{request.path}/{job.pk}")}
        if not submitted.created:
            headers["Idempotency-Replayed"] = "true"
        return Response(answer, status=201, headers=headers)


def _filter(asked: dict[str, Any]) -> selectors.JobFilter:
    return selectors.JobFilter(
        teams=asked["team"],
        owner=asked["owner"],
        states=[state.value for state in asked["state"]],
        priorities=[int(priority.value[1:]) for priority in asked["priority"]],
        gpu_type=asked["gpu_type"],
        text=asked["q"],
        array=asked["array"],
        since=asked["since"],
        until=asked["until"],
    )


def _cursor(cursor: str) -> tuple[datetime, str]:
    """Where the page before ended: the time of submission and the id of its last job."""
    at, job_id = from_cursor(cursor, tuple[datetime, str])
    if at.tzinfo is None or "\0" in job_id:
        raise invalid([FieldError("cursor", "was not handed out here", "Leave it out for the first page.")])
    return at, job_id


def _idempotency_key(request: Request) -> str | None:
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not re.fullmatch(_KEY, key):
        remedy = "Give 1 to 255 printable ASCII characters without blanks, such as a UUID."
        raise invalid([FieldError("Idempotency-Key", "is no key", remedy)])
    return key
