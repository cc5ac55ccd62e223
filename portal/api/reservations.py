"""`reservations`: GPUs kept for a team from one moment to another."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from nodes import selectors as nodes
from portal import operations
from portal.api.answers import ReservationPage, ReservationRow
from portal.api.description import describe
from portal.api.oncall import DRY_RUN, LISTED, WHY, OnCall, check_span, page
from portal.api.problems import Problem, invalid, not_found
from portal.api.query import Moment
from quotas import selectors as quotas
from scheduler.fields import REQUIRED, FieldError, Record, Text, Whole
from scheduler.models import Reservation
from scheduler.reservations import Over, Wish

WANTED = Record(
    {
        "name": (Text(128), REQUIRED),
        "team": (Text(128), REQUIRED),
        "gpus": (Whole(1, 100_000, "GPUs"), REQUIRED),
        "gpu_type": (Text(32), REQUIRED),
        "start": (Moment(), REQUIRED),
        "end": (Moment(), REQUIRED),
        "reason": (Text(500), REQUIRED),
    }
)


def read_wish(wanted: dict[str, Any]) -> Wish | list[FieldError]:
    """The wish, or what is wrong with it: an unknown team, more than any one zone of the fleet has."""
    errors = []
    teams = [team.name for team in quotas.teams(quotas.tree_in_force())]
    if wanted["team"] not in teams:
        errors.append(FieldError("team", "is no team", f"Give one of: {', '.join(sorted(teams))}."))
    zones = nodes.largest_zones()
    if wanted["gpu_type"] not in zones:
        errors.append(FieldError("gpu_type", "is not known", f"Give one of: {', '.join(sorted(zones)) or 'none yet'}."))
    elif wanted["gpus"] > zones[wanted["gpu_type"]]:
        most = zones[wanted["gpu_type"]]
        errors.append(FieldError("gpus", f"is more than the largest zone has, {most}", f"Give at most {most}."))
    return errors or Wish(**wanted)


class Reservations(OnCall):
    query = {"GET": LISTED, "POST": DRY_RUN}

    @describe("listReservations", "Reservations, the newest first", ReservationPage, query=LISTED)
    def get(self, request: Request) -> Response:
        rows, cursor = page(Reservation.objects.select_related("team"), self.parameters, str)
        return Response(ReservationPage([_row(row) for row in rows], cursor))

    @describe("reserve", "Keep GPUs for a team", ReservationRow, status=201, body=WANTED.schema(), query=DRY_RUN)
    def post(self, request: Request) -> Response:
        wanted = self.read_body(WANTED)
        check_span(wanted["start"], wanted["end"])
        wish = read_wish(wanted)
        if isinstance(wish, list):
            raise invalid(wish)
        kept = operations.reservable(wish)
        if self.dry_run:
            span = wish.name, wish.team, wish.gpus, wish.gpu_type, wish.start, wish.end, wish.reason
            return Response(ReservationRow(None, *span, request.user.get_username(), None, kept), status=201)
        return Response(_row(operations.reserve(self.user, wish), kept), status=201)


class CancelReservation(OnCall):
    @describe(
        "cancelReservation",
        "Call a reservation off, or end it",
        ReservationRow,
        status=202,
        body=WHY.schema(),
        problems=(404, 409),
    )
    def post(self, request: Request, reservation_id: str) -> Response:
        reason = self.read_body(WHY)["reason"]
        try:
            return Response(_row(operations.cancel_reservation(self.user, reservation_id, reason)), status=202)
        except Reservation.DoesNotExist as error:
            raise not_found("such reservation") from error
        except Over as error:
            raise Problem(409, "This reservation is over already.", kind="already-over") from error


def _row(row: Reservation, kept: int | None = None) -> ReservationRow:
    return ReservationRow(
        row.pk,
        row.name,
        row.team.name,
        row.gpus,
        row.gpu_type,
        row.start,
        row.end,
        row.reason,
        row.by,
        row.cancelled_at,
        kept,
    )
