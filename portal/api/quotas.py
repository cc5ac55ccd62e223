"""`quotas`: the tree in force, edited as a whole under an optimistic lock; what edits would do, and have done."""

from __future__ import annotations

import re
from typing import Any, cast

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from portal import quota_edit
from portal.accounts.models import User
from portal.api import quota_answers
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import Problem, invalid, not_found
from portal.api.query import CURSOR, Moment, Query, from_cursor, limit, to_cursor
from portal.quota_edit import Refused, Wanted
from quotas import edits, history, selectors
from quotas.edits import EditIsOver, NotSchedulable
from quotas.models import ScheduledEdit
from quotas.services import Outdated
from scheduler.fields import REQUIRED, Field, FieldError, Flag, ListOf, MapOf, Nullable, Record, Text, Whole

MOST_NODES = 2000
AGAIN_S = 5
"""When to ask for a preview again that a worker goes on with."""
_NAME = Text(64, pattern=r"[A-Za-z0-9_-]{1,64}", wanted="1 to 64 letters, digits, - or _")
_GPUS = Whole(0, 10_000_000, "GPUs")
_BY_TYPE = MapOf(Text(32, pattern=r"[A-Za-z0-9._-]{1,32}", wanted="the name of a GPU type"), _GPUS, 64)
NODE = Record(
    {
        "name": (_NAME, REQUIRED),
        "parent": (Nullable(_NAME), None),
        "share": (Text(13, pattern=r"[0-9]{1,6}(\.[0-9]{1,6})?", wanted="a decimal number as text, such as 12.5"), "1"),
        "floor": (_BY_TYPE, {}),
        "ceiling": (_BY_TYPE, {}),
        "min_runtime_s": (Whole(0, 366 * 86_400, "seconds"), 0),
        "p0_allowed": (Flag(), False),
        "reclaim": (Text(8, pattern="share|floor", wanted="share or floor"), "share"),
        "class_caps": (MapOf(Text(2, pattern="P[0-3]", wanted="P0, P1, P2 or P3"), _GPUS, 4), {}),
    }
)
_NODES: tuple[Field, Any] = (ListOf(NODE, 0, MOST_NODES), REQUIRED)
DRAFT = Record({"nodes": _NODES})
EDIT = Record(
    {
        "nodes": _NODES,
        "reason": (Text(500), REQUIRED),
        "at": (Nullable(Moment()), None),
        "until": (Nullable(Moment()), None),
    }
)
LISTED = Query({"limit": limit(100, 20), "cursor": (CURSOR, None)})
_IF_MATCH = OpenApiParameter(
    "If-Match", type=str, location="header", description="The ETag of the tree that the edit was made on. Required."
)


class QuotaTree(Endpoint):
    @describe("getQuotas", "The quota tree in force", quota_answers.Quotas)
    def get(self, request: Request) -> Response:
        return _in_force()

    @describe(
        "putQuotas",
        "Put a tree in force: at once, or its changes from `at` on, or until `until`, when they go back by themselves",
        quota_answers.Quotas,
        body=EDIT.schema(),
        headers=(_IF_MATCH,),
        problems=(409, 412, 428),
    )
    def put(self, request: Request) -> Response:
        based_on = _based_on(request)
        body = self.read_body(EDIT)
        tree = quota_edit.tree_of(body["nodes"], based_on)
        wanted = Wanted(tree, based_on, body["reason"], body["at"], body["until"])
        try:
            quota_edit.put(cast(User, request.user), self.standing, wanted)
        except Outdated as error:
            raise _outdated(error.version) from error
        except Refused as error:
            raise invalid(quota_edit.field_errors(error, body["nodes"])) from error
        except NotSchedulable as error:
            raise Problem(409, f"The edit cannot be scheduled: {error}.", kind="not-schedulable") from error
        return _in_force()


class Preview(Endpoint):
    @describe(
        "previewQuotas",
        "What a tree would do: who is hit, who would be stopped, whose start would move. Changes nothing",
        quota_answers.Preview,
        body=DRAFT.schema(),
        problems=(503,),
    )
    def post(self, request: Request) -> Response:
        rows = self.read_body(DRAFT)["nodes"]
        try:
            found = quota_edit.preview(self.standing, quota_edit.tree_of(rows, selectors.version()))
        except Refused as error:
            raise invalid(quota_edit.field_errors(error, rows)) from error
        more = {} if found.ticket is None else {"Retry-After": str(AGAIN_S)}
        return Response(quota_answers.preview(found.found), headers=more)


class History(Endpoint):
    query = {"GET": LISTED}

    @describe(
        "getQuotaHistory", "The trees that came into force, newest first", quota_answers.QuotaHistory, query=LISTED
    )
    def get(self, request: Request) -> Response:
        asked = self.parameters
        before = _place(asked["cursor"]) if asked["cursor"] is not None else None
        found = history.history(asked["limit"] + 1, before)
        page = found[: asked["limit"]]
        more = to_cursor(page[-1].version) if len(found) > len(page) else None
        return Response(quota_answers.QuotaHistory([quota_answers.revision(one) for one in page], more))


class CancelEdit(Endpoint):
    @describe(
        "cancelQuotaEdit",
        "Call a scheduled edit off, or end now one that is in force",
        quota_answers.Quotas,
        problems=(403, 404, 409),
    )
    def post(self, request: Request, edit_id: int) -> Response:
        try:
            quota_edit.cancel(self.standing, edit_id)
        except ScheduledEdit.DoesNotExist as error:
            raise not_found("such edit") from error
        except Refused as error:
            raise Problem(
                403, "This edit may only be ended by somebody who may edit the nodes that it is about."
            ) from error
        except EditIsOver as error:
            raise Problem(409, f"{str(error).capitalize()}.", kind="already-over") from error
        return _in_force()


def _in_force() -> Response:
    tree = selectors.tree()
    return Response(quota_answers.quotas(tree, edits.upcoming()), headers={"ETag": f'"{tree.version}"'})


def _based_on(request: Request) -> int:
    given: str | None = request.headers.get("If-Match")
    if given is None:
        raise Problem(428, "Say which tree the edit was made on: send its ETag as If-Match.", kind="if-match-missing")
    found = re.fullmatch(r'\s*"(\d{1,9})"\s*', given, re.ASCII)
    if found is None:
        raise _outdated(selectors.version())
    return int(found[1])


def _outdated(version: int) -> Problem:
    detail = f"The tree has been edited since: version {version} is in force. Read it, and make the edit on that."
    return Problem(412, detail, kind="outdated", headers={"ETag": f'"{version}"'})


def _place(cursor: str) -> int:
    (version,) = from_cursor(cursor, tuple[int])
    if not 0 <= version < 2**31:
        raise invalid([FieldError("cursor", "was not handed out here", "Leave it out for the first page.")])
    return int(version)
