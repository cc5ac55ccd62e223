"""Every error of the REST interface as a problem detail (RFC 9457), whatever raised it."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.views import exception_handler

from scheduler.fields import FieldError
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 2


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


def handler(exc: Exception, context: dict[str, Any]) -> Response:
    """What the REST framework answers when an endpoint raised ``exc``."""
    problem = _problem(exc, context)
    response = Response(problem.body(), status=problem.status, content_type=CONTENT_TYPE)
    for name, value in problem.headers.items():
        response[name] = value
    # Tells the framework to answer by what JSON can do, whatever the client accepts.
    response.exception = True
    return response


def as_http(problem: Problem) -> HttpResponse:
    """The same outside of the REST framework."""
    raw = msgspec.json.encode(problem.body())
    return HttpResponse(raw, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)


def _problem(exc: Exception, context: dict[str, Any]) -> Problem:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, StoreUnavailable):
        detail = "The live state cannot be read at the moment. What was submitted is kept, and what runs goes on."
        return Problem(503, detail, kind="store-unavailable", headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(exc, RequestDataTooBig):
        return Problem(413, "The body is larger than is taken.")
    if isinstance(exc, SuspiciousOperation):
        return Problem(400, "The request is malformed.")
    answered = exception_handler(exc, context) if isinstance(exc, Http404 | PermissionDenied | APIException) else None
    if answered is None:
        log.exception("request_failed", path=context["request"].path, method=context["request"].method, exc_info=exc)
        return Problem(500, "Something failed here; it has been logged. The request may be tried again.")
    detail = answered.data.get("detail", "") if isinstance(answered.data, dict) else ""
    return Problem(answered.status_code, str(detail), headers=dict(answered.items()))


def unknown_path(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
    """The answer below ``/api/v1/`` where there is nothing."""
    return as_http(Problem(404, "There is nothing at this address. GET /api/v1/schema/ lists what there is."))
