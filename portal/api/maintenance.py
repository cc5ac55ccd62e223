"""`maintenance`: spans of time in which hosts take no work and run none."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from nodes.maintenance import Over
from nodes.models import Maintenance, Node
from nodes.services import UnknownNode
from portal import operations
from portal.api.answers import MaintenancePage, MaintenanceWindow
from portal.api.description import describe
from portal.api.nodes import blast_radius
from portal.api.oncall import DRY_RUN, LISTED, WHY, OnCall, check_span, page
from portal.api.problems import Problem, invalid, not_found
from portal.api.query import Moment
from portal.operations import Kind, Where
from scheduler import clock
from scheduler.core.blast import Blast
from scheduler.fields import REQUIRED, FieldError, ListOf, Record, Text

_NAME = Text(128)
WANTED = Record(
    {
        "nodes": (ListOf(_NAME, 1, 2000), None),
        "az": (_NAME, None),
        "rack": (_NAME, None),
        "start": (Moment(), REQUIRED),
        "end": (Moment(), REQUIRED),
        "reason": (Text(500), REQUIRED),
    }
)


class Maintenances(OnCall):
    query = {"GET": LISTED, "POST": DRY_RUN}

    @describe("listMaintenance", "Maintenance windows, the newest first", MaintenancePage, query=LISTED)
    def get(self, request: Request) -> Response:
        rows, cursor = page(Maintenance.objects.prefetch_related("nodes"), self.parameters, int)
        return Response(MaintenancePage([_window(row) for row in rows], cursor))

    @describe(
        "planMaintenance",
        "Keep hosts free of work for a span of time: nodes by name, or those of a zone or of a rack of it",
        MaintenanceWindow,
        status=201,
        body=WANTED.schema(),
        query=DRY_RUN,
        problems=(404,),
    )
    def post(self, request: Request) -> Response:
        wanted = self.read_body(WANTED)
        check_span(wanted["start"], wanted["end"])
        where = _where(wanted)
        radius = operations.radius(Kind.MAINTENANCE, where.nodes, clock.to_ms(wanted["start"]))
        span = wanted["start"], wanted["end"], wanted["reason"]
        if self.dry_run:
            by = request.user.get_username()
            told = blast_radius(where.words, radius, dry_run=True) if radius else None
            return Response(MaintenanceWindow(None, where.words, list(where.nodes), *span, by, None, told), status=201)
        try:
            row = operations.maintain(self.user, where, *span)
        except UnknownNode as error:
            raise not_found(f"node {error}") from error
        return Response(_window(row, radius), status=201)


class CancelMaintenance(OnCall):
    @describe(
        "cancelMaintenance",
        "End a maintenance window, or call it off",
        MaintenanceWindow,
        status=202,
        body=WHY.schema(),
        problems=(404, 409),
    )
    def post(self, request: Request, window_id: int) -> Response:
        reason = self.read_body(WHY)["reason"]
        try:
            return Response(_window(operations.cancel_maintenance(self.user, window_id, reason)), status=202)
        except Maintenance.DoesNotExist as error:
            raise not_found("such maintenance window") from error
        except Over as error:
            raise Problem(409, "This maintenance window is over already.", kind="already-over") from error


def _where(wanted: dict[str, Any]) -> Where:
    """The hosts meant. Raises Problem, 400 or 404."""
    names, az, rack = wanted["nodes"], wanted["az"], wanted["rack"]
    if (names is None) == (az is None) or (rack is not None and az is None):
        remedy = "Give nodes, or az, or az and rack."
        raise invalid([FieldError("nodes", "does not say which hosts are meant", remedy)])
    if names is not None:
        chosen = tuple(sorted(set(names)))
        return Where(chosen, chosen[0] if len(chosen) == 1 else f"{len(chosen)} hosts")
    found = Node.objects.filter(removed_at=None, az=az, **({"rack": rack} if rack is not None else {}))
    chosen = tuple(found.order_by("name").values_list("name", flat=True))
    if not chosen:
        raise not_found("host there")
    return Where(chosen, az if rack is None else f"{az} {rack}")


def _window(row: Maintenance, radius: Blast | None = None) -> MaintenanceWindow:
    return MaintenanceWindow(
        row.pk,
        row.place,
        sorted(node.name for node in row.nodes.all()),
        row.start,
        row.end,
        row.reason,
        row.by,
        row.cancelled_at,
        blast_radius(row.place, radius, dry_run=False) if radius else None,
    )
