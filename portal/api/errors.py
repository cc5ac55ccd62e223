"""Whatever an endpoint raised, as a problem detail."""

from __future__ import annotations

from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.views import exception_handler

from portal.api.problems import Problem, as_http
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)

RETRY_AFTER_S = 2


def handler(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """What the REST framework answers when an endpoint raised ``exc``: JSON, whatever the endpoint itself renders."""
    return as_http(_problem(exc, context))


def _problem(exc: Exception, context: dict[str, Any]) -> Problem:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, StoreUnavailable):
        detail = "The live state cannot be read at the moment. What was submitted is kept, and what runs goes on."
        return Problem(503, detail, kind="store-unavailable", headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(exc, OperationalError | InterfaceError):
        log.warning("the database does not answer", error=str(exc))
        detail = "The database does not answer at the moment. The request may or may not have been done: ask again."
        return Problem(503, detail, kind="database-unavailable", headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(exc, RequestDataTooBig):
        return Problem(413, "The body is larger than is taken.")
    if isinstance(exc, SuspiciousOperation):
        return Problem(400, "The request is malformed.")
    answered = exception_handler(exc, context) if isinstance(exc, Http404 | PermissionDenied | APIException) else None
    if answered is None:
        log.exception("request_failed", path=context["request"].path, method=context["request"].method, exc_info=exc)
        return Problem(500, "Something failed here; it has been logged. The request may be tried again.")
    detail = answered.data.get("detail", "") if isinstance(answered.data, dict) else ""
    headers = {name: answered[name] for name in ("WWW-Authenticate", "Retry-After") if answered.has_header(name)}
    return Problem(answered.status_code, str(detail), headers=headers)
