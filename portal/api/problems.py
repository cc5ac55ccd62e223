"""Problem details (RFC 9457): what every error of the REST interface is answered as."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from django.http import HttpRequest, HttpResponse

from scheduler.fields import FieldError

CONTENT_TYPE = "application/problem+json"


class ErrorItem(msgspec.Struct, frozen=True):
    """One thing wrong with the request: ``field`` is a path in the body, or the name of a parameter or header."""

    field: str
    reason: str
    remedy: str
    code: str = "invalid"


class ProblemDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, in data and in words."""

    type: str
    title: str
    status: int
    detail: str
    errors: Sequence[ErrorItem] = ()


class Problem(Exception):
    """Raised by an endpoint to answer with an error. ``kind`` tells apart what shares a status."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "",
        errors: Sequence[FieldError] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.errors = errors
        self.headers = headers or {}

    def body(self) -> ProblemDetail:
        return ProblemDetail(
            type=f"urn:gangway:problem:{self.kind}" if self.kind else "about:blank",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            errors=tuple(ErrorItem(one.field, one.reason, one.remedy, str(one.code)) for one in self.errors),
        )


def invalid(errors: Sequence[FieldError]) -> Problem:
    """400, or 403 where nothing is wrong but that rights are missing."""
    forbidden = all(error.code == "forbidden" for error in errors)
    detail = "; ".join(f"{error.field or 'the body'} {error.reason}" for error in errors[:3])
    more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
    status, kind = (403, "forbidden") if forbidden else (400, "invalid-request")
    return Problem(status, detail + more, kind=kind, errors=errors)


def not_found(what: str) -> Problem:
    return Problem(404, f"There is no {what}, or it is not yours to see.")


def as_http(problem: Problem) -> HttpResponse:
    """The same outside of the REST framework."""
    raw = msgspec.json.encode(problem.body())
    return HttpResponse(raw, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)


def unknown_path(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
    """The answer below ``/api/v1/`` where there is nothing."""
    return as_http(Problem(404, "There is nothing at this address. GET /api/v1/schema/ lists what there is."))
