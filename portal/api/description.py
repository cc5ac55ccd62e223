"""The OpenAPI document, made from what the endpoints really take and answer.

Bodies are described by the declarations that check them (``scheduler.fields``), answers by the records that are encoded
(msgspec reads their types), errors by the statuses that an endpoint names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from portal.api.problems import CONTENT_TYPE, ProblemDetail
from portal.api.query import Query

_REF = "#/components/schemas/{name}"
_components: dict[str, Any] = {}


def describe(
    name: str,
    summary: str,
    answer: type | None,
    *,
    status: int = 200,
    problems: tuple[int, ...] = (),
    body: Mapping[str, Any] | None = None,
    query: Query | None = None,
    headers: tuple[OpenApiParameter, ...] = (),
    also: tuple[int, ...] = (),
    forms: tuple[str, ...] = (),
    public: bool = False,
) -> Callable[[Any], Any]:
    """Describe one method of an endpoint.

    Args:
        name: what generated clients call it.
        answer: the type of the answer of ``status``; None for one without a body.
        problems: statuses answered as problem details; 401 is added unless the endpoint is ``public``, 400 where there
            are parameters, 400, 403, 413 and 415 where there is a body.
        also: further statuses that carry no body (304).
        forms: further media types of the answer, as text.
    """
    expected = set(problems) | (set() if public else {401})
    expected |= {400} if query is not None else set()
    expected |= {400, 403, 413, 415} if body is not None else set()
    responses: dict[Any, Any] = {(status, "application/json") if forms else status: _described(status, answer)}
    responses |= {(status, form): OpenApiResponse(str, description=HTTPStatus(status).phrase) for form in forms}
    responses |= {code: OpenApiResponse(description=HTTPStatus(code).phrase) for code in also}
    responses |= {(code, CONTENT_TYPE): _described(code, ProblemDetail) for code in sorted(expected)}
    return extend_schema(
        operation_id=name,
        summary=summary,
        request={"application/json": dict(body)} if body is not None else None,
        responses=responses,
        parameters=[*(query.parameters() if query is not None else ()), *headers],
        auth=[] if public else None,
    )


def _described(status: int, answer: type | None) -> OpenApiResponse:
    phrase = HTTPStatus(status).phrase
    if answer is None:
        return OpenApiResponse(description=phrase)
    (schema,), components = msgspec.json.schema_components([answer], ref_template=_REF)
    _components.update(components)
    return OpenApiResponse(response=schema, description=phrase)


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Post-processing hook of drf-spectacular: the records that answers refer to, and which bodies are required."""
    result.setdefault("components", {}).setdefault("schemas", {}).update(_components)
    for path in result["paths"].values():
        for operation in path.values():
            body = operation.get("requestBody")
            schema = body["content"]["application/json"]["schema"] if body else {}
            if schema.get("required"):
                body["required"] = True
    return result


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "portal.api.sessions.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "portal.api.sessions.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
