"""`jobs/{id}/logs`: what a rank has written, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.agent_logs import archive
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.jobs.single import job_of
from portal.api.problems import Problem
from portal.api.query import Digits, Query
from scheduler import connections
from scheduler.fields import INVALID, FieldError, Whole
from scheduler.models import RankLog
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs import reading
from scheduler.ranklogs.watching import watch

MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a log, in bytes."""

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if re.fullmatch(r"\d{1,15}", value, re.ASCII):
            return int(value)
        errors.append(FieldError(path, "is no place in a log", "Give the next_offset of the answer before, or 0."))
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}


LOGS = Query(
    {
        "rank": (Digits(Whole(0, 999_999_999, "a rank")), 0),
        "attempt": (Digits(Whole(1, 999_999_999, "an attempt")), None),
        "offset": (Offset(), None),
        "tail": (Digits(Whole(1, MOST_BYTES, "bytes")), None),
        "limit": (Digits(Whole(16, MOST_BYTES, "bytes")), MOST_BYTES),
    }
)


class LogText(msgspec.Struct, frozen=True):
    """A part of what a rank has written to stdout and stderr, from byte ``offset`` to ``next_offset`` of ``size``.

    ``text`` is UTF-8 with what is none replaced; escape sequences are in it as they came. ``skipped`` bytes before
    ``offset`` are not kept. ``over``: the rank has ended, and nothing comes after ``size``.
    """

    attempt: int
    rank: int
    offset: int
    next_offset: int
    size: int
    skipped: int
    over: bool
    text: str


class Logs(Endpoint):
    query = {"GET": LOGS}

    @describe(
        "readLog",
        "What a rank has written; of the newest attempt that has written something unless one is named",
        LogText,
        query=LOGS,
        problems=(404, 503),
    )
    def get(self, request: Request, job_id: str) -> Response:
        asked = self.parameters
        job = job_of(job_id, self.standing)
        watch(job.pk)
        row = reading.find(job.pk, asked["attempt"], asked["rank"])
        if row is None:
            raise Problem(404, f"Rank {asked['rank']} has written nothing that was kept.", kind="no-log")
        connections.release_database()
        try:
            return Response(_part(row, asked))
        except ObjectsUnavailable as error:
            detail = "Logs cannot be read now: object storage does not answer. What ranks write stays on their hosts."
            raise Problem(503, detail, kind="storage-away", headers={"Retry-After": "5"}) from error


def _part(row: RankLog, asked: dict[str, Any]) -> LogText:
    offset = asked["offset"] or 0
    if asked["tail"] is not None and asked["offset"] is None:
        offset = max(0, row.size - asked["tail"])
    found = reading.read(archive(), row, offset, asked["limit"])
    return LogText(
        attempt=row.attempt,
        rank=row.rank,
        offset=found.start,
        next_offset=found.end,
        size=row.size,
        skipped=found.skipped,
        over=row.over,
        text=found.data.decode("utf-8", "replace"),
    )
