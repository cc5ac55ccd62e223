"""What the endpoints of on-call have in common: who may use them, dry runs, spans of time, pages by id."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django.db.models import Model, QuerySet
from django.utils import timezone
from rest_framework.request import Request

from portal.accounts.models import User
from portal.api.endpoint import Endpoint
from portal.api.nodes import DRY_RUN, YesNo
from portal.api.problems import Problem, invalid
from portal.api.query import CURSOR, Query, from_cursor, limit, to_cursor
from scheduler.fields import FieldError, Flag, Nullable, Record, Text

LISTED = Query({"limit": limit(200, 50), "cursor": (CURSOR, None)})
WHY = Record({"reason": (Text(500), "")})
__all__ = ["DRY_RUN", "LISTED", "WHY", "Flag", "Nullable", "OnCall", "check_span", "page"]


class OnCall(Endpoint):
    """Everybody reads; only on-call and administrators write."""

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.method != "GET" and not self.standing.operates_nodes:
            raise Problem(403, "Only on-call and administrators may do that.")

    @property
    def dry_run(self) -> bool:
        return self.parameters["dry_run"] is YesNo.YES

    @property
    def user(self) -> User:
        return cast(User, self.request.user)


def check_span(start: datetime, end: datetime) -> None:
    """Raises Problem, 400: the span is empty, or over."""
    errors = []
    if end <= start:
        errors.append(FieldError("end", "is not after the start", "Give a later end."))
    elif end <= timezone.now():
        errors.append(FieldError("end", "has passed", "Give an end that is still to come."))
    if errors:
        raise invalid(errors)


def page(rows: QuerySet[Any], parameters: dict[str, Any], kind: type[int] | type[str]) -> tuple[list[Any], str | None]:
    """A page of rows, the newest id first, and the cursor of the next one."""
    if parameters["cursor"] is not None:
        (before,) = from_cursor(parameters["cursor"], tuple[kind])  # type: ignore[valid-type]
        rows = rows.filter(pk__lt=before)
    found: list[Model] = list(rows.order_by("-pk")[: parameters["limit"] + 1])
    shown = found[: parameters["limit"]]
    return shown, to_cursor(cast(Any, shown[-1].pk)) if len(found) > len(shown) else None
