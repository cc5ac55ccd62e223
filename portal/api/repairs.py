"""`repairs`: moves that would let waiting gangs start, and agreeing to one."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal import mending
from portal.api.description import describe
from portal.api.oncall import WHY, OnCall
from portal.api.problems import Problem, not_found
from scheduler.core.moves import Proposal

HOUR_MS = 3_600_000


class RepairMove(msgspec.Struct, frozen=True):
    """A job that would be stopped and started elsewhere at once."""

    job: str
    team: str
    gpus: int
    price_gpu_hours: float


class RepairProposal(msgspec.Struct, frozen=True):
    """``job`` waits and could start on ``nodes`` if ``moves`` were made.

    ``price_gpu_hours`` is what they cost, checkpoints and restarts; ``gain_gpu_hours`` what the job would wait longer
    without them, null where its start is unknown.
    """

    id: str
    job: str
    team: str
    gpus: int
    gpu_type: str
    nodes: list[str]
    moves: list[RepairMove]
    price_gpu_hours: float
    gain_gpu_hours: float | None


class RepairPage(msgspec.Struct, frozen=True):
    """``mode`` is ``off``, ``propose`` or ``auto``."""

    mode: str
    items: list[RepairProposal]


class Repairs(OnCall):
    @describe("listRepairs", "Moves that would let waiting gangs start", RepairPage, problems=(403, 503))
    def get(self, request: Request) -> Response:
        if not self.standing.operates_nodes:  # it names jobs of all teams
            raise Problem(403, "Only on-call and administrators see what could be moved.")
        return Response(RepairPage(mending.mode(), [_row(one) for one in mending.proposals()]))


class AcceptRepair(OnCall):
    @describe(
        "acceptRepair",
        "Have proposed moves made",
        RepairProposal,
        status=202,
        body=WHY.schema(),
        problems=(403, 404, 503),
    )
    def post(self, request: Request, proposal_id: str) -> Response:
        why: dict[str, Any] = self.read_body(WHY)
        try:
            done = mending.accept(self.user, proposal_id, why["reason"])
        except mending.Gone as error:
            raise not_found(f"proposal {proposal_id[:64]}") from error
        return Response(_row(done), status=202)


def _row(one: Proposal) -> RepairProposal:
    return RepairProposal(
        id=one.id,
        job=one.job,
        team=one.team,
        gpus=one.gpus,
        gpu_type=one.gpu_type,
        nodes=list(one.nodes),
        moves=[RepairMove(move.job, move.team, move.gpus, _hours(move.price_ms)) for move in one.moves],
        price_gpu_hours=_hours(one.price_ms),
        gain_gpu_hours=None if one.gain_ms is None else _hours(one.gain_ms),
    )


def _hours(gpu_ms: int) -> float:
    return round(gpu_ms / HOUR_MS, 3)
