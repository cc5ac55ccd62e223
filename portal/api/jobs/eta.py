"""`jobs/{id}/eta`: when a waiting job starts, by what that is told, and how that moved."""

from __future__ import annotations

from datetime import datetime

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.jobs.representation import detail, expected_start
from portal.api.jobs.single import job_of
from portal.foreseeing import likely_starts
from scheduler import clock
from scheduler.core.types import Phase
from scheduler.eta import telling
from scheduler.eta.models import StartTold


class ToldStart(msgspec.Struct, frozen=True):
    """What was told at ``at``. ``moved`` is why it differs from what was told before: empty for the first, else
    quota, cluster, p0, ran_long, ended_early, others_came, learned or drawn; ``words`` says it for people."""

    at: datetime
    p50: datetime
    p90: datetime
    basis: str
    moved: str
    words: str


class JobEta(msgspec.Struct, frozen=True):
    """``p50``: as likely before as after. ``p90``: by then nine times in ten. Both are null while unknown, and for a
    job that does not wait. ``basis`` is what run times are taken from: model, owner, team, size or limit. ``latest``
    is the start by the time limits of what runs. ``told`` is what was told, the newest first."""

    id: str
    state: str
    p50: datetime | None
    p90: datetime | None
    basis: str | None
    latest: datetime | None
    told: list[ToldStart]


class Eta(Endpoint):
    @describe("getJobEta", "When a waiting job starts, and why that moved", JobEta, problems=(404,))
    def get(self, request: Request, job_id: str) -> Response:
        job = job_of(job_id, self.standing)
        state = detail(job).state
        waits = state == Phase.PENDING
        one = likely_starts().of(job.pk, clock.now_ms()) if waits else None
        return Response(
            JobEta(
                job.pk,
                state,
                None if one is None else clock.to_datetime(one.p50_ms),
                None if one is None else clock.to_datetime(one.p90_ms),
                None if one is None else one.basis,
                expected_start(job.pk) if waits else None,
                [_told(row) for row in telling.told(job.pk)],
            )
        )


def _told(row: StartTold) -> ToldStart:
    return ToldStart(row.at, row.p50, row.p90, row.basis, row.why, telling.words_of(row.why))
