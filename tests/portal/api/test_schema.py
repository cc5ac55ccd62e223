"""The OpenAPI document says what the interface does: schemathesis asks it everything that the document allows."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, cast

import jsonschema
import pytest
import schemathesis
from django.core.cache import cache
from django.test import Client
from django.test.client import ClientHandler
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nodes.protocol import (
    REGISTER_PATH,
    SYNC_PATH,
    Inventory,
    LogPiece,
    LogsAnswer,
    LogsRequest,
    LogTaken,
    RegisterAnswer,
    RegisterRequest,
    SyncAnswer,
    encode,
    encode_answer,
    encode_assignments,
)
from portal.api.agent_door import STATUS
from scheduler import requests
from tests.nodes import speech
from tests.portal.api.conftest import Api, body

pytestmark = pytest.mark.usefixtures("fleet")

PREFIX = "/api/v1/"
EXAMPLES = 8
"""Of each operation, for each of three people: well and ill-formed ones."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def document(nobody: Api) -> Any:
    response = nobody.get("schema/?format=json")
    assert response.status_code == 200
    return json.loads(response.content)


def test_the_document_names_every_endpoint_and_its_refusals(document: Any) -> None:
    submit = document["paths"]["/api/v1/jobs"]["post"]
    assert set(submit["responses"]) == {"201", "400", "401", "403", "409", "413", "415"}
    assert list(submit["responses"]["400"]["content"]) == ["application/problem+json"]
    assert submit["requestBody"]["content"]["application/json"]["schema"] == requests.schema()
    assert {name.removeprefix(PREFIX) for name in document["paths"]} >= {
        *("jobs", "jobs/{job_id}", "jobs/{job_id}/events", "jobs/{job_id}/why", "jobs/{job_id}/cancel"),
        *("queue", "cluster", "cluster/map", "nodes", "nodes/{name}", "nodes/{name}/drain", "quotas", "auth/tokens"),
    }


def test_the_document_names_what_agents_say(document: Any) -> None:
    """By the records that both sides decode by, and with every refusal that there is."""
    register = document["paths"][REGISTER_PATH]["post"]
    sync = document["paths"][SYNC_PATH]["post"]
    assert set(register["responses"]) == {"200", "400", "401", "403", "409", "413"}
    assert set(sync["responses"]) == {"200", *(str(status) for status, _ in STATUS.values())}
    assert (register["security"], sync["security"]) == ([{}, {"nodeToken": []}], [{"nodeToken": []}])
    assert document["components"]["securitySchemes"]["nodeToken"]["scheme"] == "bearer"
    told = encode_answer(SyncAnswer("h", 12, 7, -40, 30_000, 10.0, 1_000), encode_assignments([speech.assignment()]))
    for record, raw in [
        ("SyncRequest", encode(speech.request(3, speech.gang(), known="abc"))),
        ("SyncAnswer", told),
        ("LogsRequest", encode(LogsRequest(speech.NODE, (LogPiece("J", 1, 0, 0, b"x"),)))),
        ("LogsAnswer", encode(LogsAnswer((LogTaken("J", 1, 0, 0, 1),), 15.0))),
        ("RegisterRequest", encode(RegisterRequest(Inventory("h1", "az1", "r1", "H100"), "join"))),
        ("RegisterAnswer", encode(RegisterAnswer("h1", "t" * 32))),
    ]:
        check = jsonschema.Draft202012Validator({**document, "$ref": f"#/components/schemas/{record}"})
        check.validate(json.loads(raw))
        assert not check.is_valid({}), "the record's own fields are asked for"


def test_the_document_is_complete(document: Any) -> None:
    """Everything that is referred to is there."""
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_a_body_that_is_taken_keeps_to_the_schema(ada: Api) -> None:
    jsonschema.validate(body(), requests.schema())
    assert ada.post("jobs", body()).status_code == 201


def test_the_page_of_the_document_keeps_to_the_security_policy() -> None:
    """Everything comes from here, and no script is written into the page."""
    page = Client().get("/api/v1/docs/")
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
    assert len(sources) >= 4
    assert all(source.startswith("/") for source in sources)
    assert b"<script>" not in page.content
    assert "script-src" not in page["Content-Security-Policy"]
    script = Client().get("/api/v1/docs/?script")
    assert script["Content-Type"] == "application/javascript"
    assert b"/api/v1/schema/" in script.content


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ada", "pager", "nobody"])
def test_nothing_that_can_be_asked_breaks_it(who: str, document: Any, request: pytest.FixtureRequest) -> None:
    """No 500, no status, media type or answer that the document does not declare, by members, on-call and strangers."""
    api: Api = request.getfixturevalue(who)
    declared = schemathesis.openapi.from_dict(document)
    declared.app = in_this_transaction
    member: Api = api if who == "ada" else request.getfixturevalue("ada")
    known = {"job_id": member.post("jobs", body()).json()["id"], "name": "h1"}
    asked: Counter[str] = Counter()
    # Syncs never reach Django: tests/portal/test_agent_api.py speaks with what answers them.
    for result in declared.exclude(path=SYNC_PATH).get_all_operations():
        # schemathesis does not unpack what it asks through WSGI.
        _ask(cast(Any, result).ok(), {**api.headers, "Accept-Encoding": "identity"}, known, asked)
    assert len(asked) >= 20
    assert asked["POST /api/v1/jobs"] >= EXAMPLES


def in_this_transaction(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Django as a WSGI application that keeps the connection, and with it the test's transaction, open."""
    response: Any = ClientHandler(enforce_csrf_checks=True)(environ)
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]


def _ask(operation: Any, headers: dict[str, str], known: dict[str, str], asked: Counter[str]) -> None:
    """Every other time about something that is there, if it is about one thing."""

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(operation.as_strategy(), operation.as_strategy(GenerationMode.NEGATIVE)))
    def check(case: Any) -> None:
        asked[operation.label] += 1
        for name in (case.path_parameters or {}).keys() & known.keys():
            if asked[operation.label] % 2:
                case.path_parameters[name] = known[name]
        cache.clear()  # else the throttle of sign-ins answers for everything
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()
