"""`jobs/{id}` and what hangs below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from portal import amending, operations
from portal.accounts.models import User
from portal.accounts.permissions import Standing
from portal.api.answers import EventPage, JobDetail, JobEvent, JobWhy
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.jobs.representation import detail
from portal.api.problems import Problem, invalid, not_found
from portal.api.query import CURSOR, Query, from_cursor, limit, to_cursor
from portal.operations import Kind
from portal.submission import Invalid
from scheduler import clock, models, selectors, services
from scheduler.core.types import Phase
from scheduler.picture import picture
from scheduler.policy import live_policy

EVENTS = Query({"limit": limit(1000, 200), "cursor": (CURSOR, None)})

WISH_PROBLEMS = (403, 404, 409)

_JOB_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


def job_of(job_id: str, person: Standing) -> models.Job:
    """The job, if this person may see it.

    Raises:
        Problem: 404.
    """
    found = None
    if _JOB_ID.fullmatch(job_id):
        found = selectors.visible_jobs(person.team_ids).filter(pk=job_id).first()
    if found is None:
        raise not_found("such job")
    return found


def acted_on(job_id: str, person: Standing) -> models.Job:
    """The job, if this person may change what becomes of it.

    Raises:
        Problem: 403, 404.
    """
    job = job_of(job_id, person)
    if not person.may_act_on(job.team.name, job.submitted_by_id, job.owner):
        raise Problem(403, f"Only its owner, an admin of {job.team.name} or on-call may do that to this job.")
    return job


class Job(Endpoint):
    @describe("getJob", "One job", JobDetail, problems=(404,))
    def get(self, request: Request, job_id: str) -> Response:
        return Response(detail(job_of(job_id, self.standing)))

    @describe(
        "amendJob",
        "Change a job's priority, time limit or name",
        JobDetail,
        body=amending.AMENDMENT.schema(),
        problems=(404, 409),
    )
    def patch(self, request: Request, job_id: str) -> Response:
        job = acted_on(job_id, self.standing)
        asked = self.read_body(amending.AMENDMENT)
        try:
            phase = Phase(detail(job).state)
            changed = amending.change(cast(User, self.request.user), self.standing, job, phase, asked)
        except Invalid as refused:
            raise invalid(refused.errors) from refused
        except services.AlreadyOver as error:
            raise Problem(409, f"{error}.", kind="already-over") from error
        return Response(detail(changed))


class Events(Endpoint):
    query = {"GET": EVENTS}

    @describe("listJobEvents", "What happened to a job, oldest first", EventPage, query=EVENTS, problems=(404,))
    def get(self, request: Request, job_id: str) -> Response:
        found = selectors.job_events(job_of(job_id, self.standing).pk)
        if self.parameters["cursor"] is not None:
            revision, position = from_cursor(self.parameters["cursor"], tuple[int, int])
            found = found.filter(Q(revision__gt=revision) | Q(revision=revision, position__gt=position))
        rows = list(found[: self.parameters["limit"] + 1])
        page = rows[: self.parameters["limit"]]
        more = to_cursor(page[-1].revision, page[-1].position) if len(rows) > len(page) else None
        return Response(EventPage([_event(row) for row in page], more))


class Why(Endpoint):
    @describe("explainJob", "Why a job waits, and the smallest change that would start it", JobWhy, problems=(404, 503))
    def get(self, request: Request, job_id: str) -> Response:
        job = job_of(job_id, self.standing)
        found = selectors.why(picture(), live_policy(), job.pk, clock.now_ms(), self.standing.team_names)
        return Response(JobWhy(job.pk, detail(job).state, found))


class _Wish(Endpoint):
    """Something that a job's people want of it. Asked again, nothing changes."""

    def wish(self, job_id: str, kind: Kind, ask: Callable[[str], models.Job]) -> Response:
        job = acted_on(job_id, self.standing)
        try:
            return Response(detail(operations.on_job(cast(User, self.request.user), kind, job, ask)), status=202)
        except services.AlreadyOver as error:
            raise Problem(409, f"{error}.", kind="already-over") from error


class Cancel(_Wish):
    @describe("cancelJob", "End a job, with its checkpoint and grace", JobDetail, status=202, problems=WISH_PROBLEMS)
    def post(self, request: Request, job_id: str) -> Response:
        return self.wish(job_id, Kind.JOB_CANCEL, services.cancel)


class Hold(_Wish):
    @describe("holdJob", "Don't start a job until it is released", JobDetail, status=202, problems=WISH_PROBLEMS)
    def post(self, request: Request, job_id: str) -> Response:
        return self.wish(job_id, Kind.JOB_HOLD, services.hold)


class Release(_Wish):
    @describe("releaseJob", "Undo a hold", JobDetail, status=202, problems=WISH_PROBLEMS)
    def post(self, request: Request, job_id: str) -> Response:
        return self.wish(job_id, Kind.JOB_RELEASE, services.release)


def _event(row: models.JobEvent) -> JobEvent:
    return JobEvent(row.kind, row.at, row.attempt, row.node or None, row.detail)
