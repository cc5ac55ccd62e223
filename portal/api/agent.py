"""``POST /api/v1/agent/register``: a host joins, or tells of new inventory. Syncs are in ``agent_app``."""

from __future__ import annotations

import secrets

import msgspec
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from prometheus_client import Counter

from nodes.protocol import ProtocolError, RegisterAnswer, RegisterRequest, decode
from nodes.services import InventoryRefused, JoinRefused, NameTaken
from nodes.tokens import MAX_LENGTH, MIN_LENGTH
from portal.api.problems import Problem, as_http, invalid
from scheduler import intents
from scheduler.fields import FieldError

REGISTRATIONS = Counter("gangway_agent_registrations", "Registrations of hosts by what became of them", ["outcome"])


@csrf_exempt  # Nothing here looks at a session: the caller proves itself with a token in the request.
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """Make the node known and answer its token; a known node that proves itself updates its inventory."""
    try:
        asked = decode(RegisterRequest, request.body)
        answer = _register(asked, _own_token(request))
    except ProtocolError as error:
        wrong = [FieldError(error.field, error.reason, "Send what nodes/protocol.py declares.")]
        return _refused("garbage", invalid(wrong))
    except InventoryRefused as refused:
        wrong = [FieldError(p.field, p.reason, "Correct the inventory.") for p in refused.problems]
        return _refused("inventory", invalid(wrong))
    except JoinRefused:
        detail = "The join token is unknown, used up or expired. Ask an administrator for a new one."
        return _refused("join_token", Problem(403, detail, kind="join-refused"))
    except NameTaken:
        detail = (
            f"There is a node {asked.node.name!r} already and this is not its token. Register under another name, or "
            "send the node's own token; if the host was rebuilt, an administrator removes the old node first."
        )
        return _refused("name_taken", Problem(409, detail, kind="name-taken"))
    except Problem as problem:
        return _refused("bad_token", problem)
    REGISTRATIONS.labels("registered").inc()
    return HttpResponse(msgspec.json.encode(answer), content_type="application/json")


def _refused(outcome: str, problem: Problem) -> HttpResponse:
    REGISTRATIONS.labels(outcome).inc()
    return as_http(problem)


def _register(asked: RegisterRequest, token: str) -> RegisterAnswer:
    node = intents.register_node(asked.node, token, asked.join_token, timezone.now())
    return RegisterAnswer(node.name, token)


def _own_token(request: HttpRequest) -> str:
    """The token that the agent chose for itself, so that it may safely ask again; a new one if it chose none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if not scheme:
        return secrets.token_urlsafe(MIN_LENGTH)
    if scheme.lower() != "bearer" or not MIN_LENGTH <= len(token) <= MAX_LENGTH or not token.isascii():
        detail = f"A node's token is {MIN_LENGTH} to {MAX_LENGTH} characters, sent as 'Authorization: Bearer …'."
        raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
    return token
