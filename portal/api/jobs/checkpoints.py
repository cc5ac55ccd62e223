"""`jobs/{id}/checkpoints`: what a job can be resumed from."""

from __future__ import annotations

from datetime import datetime

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.jobs.single import job_of
from scheduler.checkpoints.selectors import Shown, checkpoints, newest_good


class CheckpointRow(msgspec.Struct, frozen=True):
    """One checkpoint. ``state``: ``reported`` (nobody has looked yet), ``good`` (its files are there with size and
    SHA-256), ``torn`` (``why``), ``elsewhere`` and ``unnamed`` (taken on trust), ``pruning`` and ``pruned``.

    ``work_seconds`` is the useful work that it holds. ``resumed_by`` are the attempts that were started from it.
    """

    manifest: str | None
    attempt: int
    step: int | None
    saved_at: datetime
    state: str
    why: str | None
    work_seconds: float | None
    size_bytes: int | None
    files: int | None
    took_seconds: float | None
    checked_at: datetime | None
    resumed_by: list[int]


class CheckpointList(msgspec.Struct, frozen=True):
    """The newest first, 200 at the most. ``newest_good`` is the manifest of the newest that was found whole."""

    items: list[CheckpointRow]
    newest_good: str | None


class Checkpoints(Endpoint):
    @describe("listCheckpoints", "A job's checkpoints, the newest first", CheckpointList, problems=(404,))
    def get(self, request: Request, job_id: str) -> Response:
        shown = checkpoints(job_of(job_id, self.standing).pk)
        good = newest_good(shown)
        return Response(CheckpointList([_row(one) for one in shown], good.manifest if good is not None else None))


def _row(one: Shown) -> CheckpointRow:
    return CheckpointRow(
        manifest=one.manifest or None,
        attempt=one.attempt,
        step=one.step,
        saved_at=one.saved_at,
        state=one.state,
        why=one.why or None,
        work_seconds=None if one.work_ms is None else one.work_ms / 1000,
        size_bytes=one.size,
        files=one.files,
        took_seconds=None if one.took_ms is None else one.took_ms / 1000,
        checked_at=one.checked_at,
        resumed_by=list(one.resumed_by),
    )
