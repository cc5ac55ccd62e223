"""`audit`: what people did to the fleet and to other people's jobs, kept for good."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.answers import ActPage, ActRow
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.oncall import page
from portal.api.problems import Problem
from portal.api.query import CURSOR, Query, limit, one_of
from portal.operations import Kind
from scheduler.fields import Choice
from scheduler.models import Act

WANTED = Query({"act": (one_of(Choice(Kind)), ()), "limit": limit(200, 50), "cursor": (CURSOR, None)})


class Audit(Endpoint):
    query = {"GET": WANTED}

    @describe("listAudit", "Acts of people, the newest first", ActPage, query=WANTED, problems=(403,))
    def get(self, request: Request) -> Response:
        if not self.standing.operates_nodes:
            raise Problem(403, "Only on-call and administrators read the audit.")
        rows = Act.objects.select_related("by")
        if self.parameters["act"]:
            rows = rows.filter(act__in=[kind.value for kind in self.parameters["act"]])
        found, cursor = page(rows, self.parameters, int)
        return Response(ActPage([_row(row) for row in found], cursor))


def _row(row: Act) -> ActRow:
    by = row.by.get_username()
    about = row.act, row.target, row.nodes, row.job or None, row.reason, row.radius, row.detail
    return ActRow(row.pk, row.at, by, *about)
