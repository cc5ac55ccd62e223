"""`cluster`: sums over the fleet. `cluster/map`: every host and every GPU, compact."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.gzip import gzip_page
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import invalid
from portal.api.query import Moment, Query
from scheduler import clock, selectors
from scheduler.fields import FieldError
from scheduler.picture import picture
from scheduler.selectors.past import map_at

_IF_NONE_MATCH = OpenApiParameter("If-None-Match", type=str, location="header", description="The ETag of a map held.")


PAST = Query({"at": (Moment(), None)})
LOOK_BACK = timedelta(days=7)


def _past(at: datetime) -> dict[str, Any]:
    """Raises Problem, 400: not within the days that are kept, or not over yet."""
    now = timezone.now()
    if not now - LOOK_BACK - timedelta(minutes=5) <= at <= now:
        reason = "is not within the last 7 days"
        raise invalid([FieldError("at", reason, f"Give a time from {(now - LOOK_BACK).isoformat()} on.")])
    return map_at(at)


class Cluster(Endpoint):
    @describe("getCluster", "GPUs by type, hosts by state, jobs by phase", selectors.ClusterSummary, problems=(503,))
    def get(self, request: Request) -> Response:
        return Response(selectors.cluster(picture(), clock.now_ms()))


@method_decorator(gzip_page, name="dispatch")
class ClusterMap(Endpoint):
    query = {"GET": PAST}

    @describe(
        "getClusterMap",
        "The map, as of its revision",
        dict[str, Any],
        headers=(_IF_NONE_MATCH,),
        also=(304,),
        query=PAST,
        problems=(503,),
    )
    def get(self, request: Request) -> Response:
        if self.parameters["at"] is not None:
            return Response(_past(self.parameters["at"]))
        shown = picture()
        # Weak: the bytes may be compressed or not. A picture that went stale is another one.
        tag = f'W/"{shown.revision}-{shown.stale_since_ms or 0}"'
        if shown.revision and request.headers.get("If-None-Match") == tag:
            return Response(status=304, headers={"ETag": tag})
        found = selectors.cluster_map(shown, clock.now_ms())
        tag = f'W/"{found["revision"]}-{found["stale_since_ms"] or 0}"'
        return Response(found, headers={"ETag": tag})
