"""Errors below ``/api/`` that no endpoint raised (a bad Host header, a method that a view refuses) as problems too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from portal.api.problems import Problem, as_http

PREFIX = "/api/"
_JSON = ("application/json", "application/problem+json")
_KEPT = ("Allow", "WWW-Authenticate", "Retry-After")


@sync_and_async_middleware
def problem_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):
        ask: Callable[[HttpRequest], Awaitable[HttpResponseBase]] = get_response

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return _as_problem(request, await ask(request))

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _as_problem(request, get_response(request))

    return answer


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.status_code < 400 or not request.path.startswith(PREFIX):
        return response
    if response.headers.get("Content-Type", "").startswith(_JSON):
        return response
    kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
    phrase = HTTPStatus(response.status_code).description or HTTPStatus(response.status_code).phrase
    return as_http(Problem(response.status_code, phrase, headers=kept))
