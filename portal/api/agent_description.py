"""The agents' two addresses in the OpenAPI document. No view of the framework serves them, so none describes them.

Bodies and answers are described by the records of ``nodes.protocol``, which both sides decode by.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from nodes.protocol import (
    LOGS_PATH,
    REGISTER_PATH,
    SYNC_PATH,
    LogsAnswer,
    LogsRequest,
    RegisterAnswer,
    RegisterRequest,
    SyncAnswer,
    SyncRequest,
)
from nodes.tokens import MAX_LENGTH, MIN_LENGTH
from portal.api.agent_door import STATUS
from portal.api.problems import CONTENT_TYPE, ProblemDetail

REGISTER_REFUSALS = (400, 401, 403, 409, 413)
LOGS_REFUSALS = (400, 401, 403, 413, 503)
SYNC_REFUSALS = tuple(sorted({status for status, _ in STATUS.values()}))

_REF = "#/components/schemas/{name}"
_SCHEME = "nodeToken"
_RECORDS = (RegisterRequest, RegisterAnswer, SyncRequest, SyncAnswer, LogsRequest, LogsAnswer, ProblemDetail)


def add_agents(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Post-processing hook of drf-spectacular."""
    _, schemas = msgspec.json.schema_components(_RECORDS, ref_template=_REF)
    result["components"]["schemas"].update(schemas)
    result["components"].setdefault("securitySchemes", {})[_SCHEME] = {
        "type": "http",
        "scheme": "bearer",
        "description": f"A node's own token: {MIN_LENGTH} to {MAX_LENGTH} characters, chosen or given.",
    }
    result["paths"][REGISTER_PATH] = {"post": _register()}
    result["paths"][SYNC_PATH] = {"post": _sync()}
    result["paths"][LOGS_PATH] = {"post": _logs()}
    return result


def _register() -> dict[str, Any]:
    return {
        "operationId": "registerNode",
        "summary": "Make a node known, or tell of its new inventory",
        "description": "The join token admits a new node. A token that the agent chose itself and sends as bearer is "
        "the node's from then on, so that it may ask again after a lost answer; without one, a token is made.",
        "tags": ["agent"],
        "security": [{}, {_SCHEME: []}],
        "requestBody": _body(RegisterRequest),
        "responses": _responses(RegisterAnswer, REGISTER_REFUSALS),
    }


def _logs() -> dict[str, Any]:
    return {
        "operationId": "takeLogs",
        "summary": "Hand in what the ranks of the node have written",
        "description": "A piece that is sent again changes nothing. The answer says where the next one of each log "
        "starts, which a piece without data asks for. After 503, send it again later.",
        "tags": ["agent"],
        "security": [{_SCHEME: []}],
        "requestBody": _body(LogsRequest),
        "responses": _responses(LogsAnswer, LOGS_REFUSALS),
    }


def _sync() -> dict[str, Any]:
    return {
        "operationId": "syncNode",
        "summary": "Tell what is on the node, and be told what should be",
        "description": "Level-triggered: the agent tells all that it observes and which assignments it holds. The "
        "answer waits for other assignments than those for up to wait_s seconds. After 503, ask again.",
        "tags": ["agent"],
        "security": [{_SCHEME: []}],
        "requestBody": _body(SyncRequest),
        "responses": _responses(SyncAnswer, SYNC_REFUSALS),
    }


def _body(record: type) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _reference(record)}}}


def _responses(answer: type, refusals: Iterable[int]) -> dict[str, Any]:
    return {
        "200": _response(200, "application/json", answer),
        **{str(status): _response(status, CONTENT_TYPE, ProblemDetail) for status in refusals},
    }


def _response(status: int, content_type: str, record: type) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": {content_type: {"schema": _reference(record)}}}


def _reference(record: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=record.__name__)}
