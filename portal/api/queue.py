"""`queue`: what waits, in the order in which it would be tried."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.query import Query, Several, limit
from portal.foreseeing import expected_starts, likely_starts
from scheduler import clock, selectors
from scheduler.fields import Text
from scheduler.picture import picture
from scheduler.policy import live_policy

WANTED = Query({"team": (Several(Text(64)), None), "gpu_type": (Text(32), ""), "limit": limit(5000, 500)})


class Queue(Endpoint):
    query = {"GET": WANTED}

    @describe(
        "getQueue",
        "The jobs that wait; of other teams' jobs, team and size",
        selectors.Queue,
        query=WANTED,
        problems=(503,),
    )
    def get(self, request: Request) -> Response:
        asked = self.parameters
        return Response(
            selectors.queue(
                picture(),
                live_policy(),
                clock.now_ms(),
                teams=self.standing.team_names,
                only_teams=asked["team"],
                gpu_type=asked["gpu_type"],
                limit=asked["limit"],
                expected=expected_starts(),
                likely=likely_starts(),
            )
        )
