"""`auth/tokens`: get a bearer token for name and password, list and revoke one's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import structlog
from allauth.mfa.models import Authenticator
from django.contrib.auth import authenticate
from django.contrib.auth.base_user import AbstractBaseUser
from knox.models import AuthToken
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from portal.api.answers import NewToken, Token, TokenList
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import Problem, not_found
from scheduler.fields import REQUIRED, Nullable, Number, Record, Text

log = structlog.get_logger(__name__)

CREDENTIALS = Record(
    {
        "username": (Text(150), REQUIRED),
        "password": (Text(1024), REQUIRED),
        "code": (Nullable(Text(16)), None),
        "expires_hours": (Nullable(Number(0.01, 87_600, "hours")), None),
    }
)

_ID_LENGTH = 16


class SignInThrottle(SimpleRateThrottle):
    """Few tries a minute for an address. Without the cache nobody is counted, and everybody may still sign in."""

    scope = "sign-in"
    rate = "20/min"

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return f"sign-in:{self.get_ident(request)}"

    def allow_request(self, request: Request, view: APIView) -> bool:
        try:
            return super().allow_request(request, view)
        except RedisError as error:
            log.warning("sign_in_not_throttled", error=repr(error))
            return True


class Tokens(Endpoint):
    @property
    def _signs_in(self) -> bool:
        # There is no request while the document of the interface is made.
        return self.request is not None and self.request.method == "POST"

    def get_authenticators(self) -> list[Any]:
        # An expired token in the header must not keep anybody from getting a new one.
        return [] if self._signs_in else super().get_authenticators()

    def get_permissions(self) -> Sequence[Any]:
        return [] if self._signs_in else super().get_permissions()

    def get_throttles(self) -> list[Any]:
        return [SignInThrottle()] if self._signs_in else []

    @describe("listTokens", "One's own tokens", TokenList)
    def get(self, request: Request) -> Response:
        rows = AuthToken.objects.filter(user=request.user).order_by("created", "digest")
        return Response(TokenList([Token(row.digest[:_ID_LENGTH], row.created, row.expiry) for row in rows]))

    @describe(
        "createToken", "Get a token", NewToken, status=201, body=CREDENTIALS.schema(), problems=(401, 429), public=True
    )
    def post(self, request: Request) -> Response:
        wanted = self.read_body(CREDENTIALS)
        headers = {"WWW-Authenticate": 'Bearer realm="gangway"'}
        user = authenticate(request, username=wanted["username"], password=wanted["password"])
        if user is None:
            raise Problem(401, "There is no active user with this name and password.", headers=headers)
        if not _second_factor_holds(user, wanted["code"]):
            detail = (
                "This account has a second factor: send the code of the authenticator app, or a recovery code, as code."
            )
            raise Problem(401, detail, headers=headers)
        hours = wanted["expires_hours"]
        row, token = AuthToken.objects.create(user, expiry=hours and timedelta(hours=hours))
        return Response(NewToken(row.digest[:_ID_LENGTH], token, row.created, row.expiry), status=201)


def _second_factor_holds(user: AbstractBaseUser, code: str | None) -> bool:
    """Whether the code is one that this person's second factor takes now; True for who has none."""
    factors = list(Authenticator.objects.filter(user_id=user.pk))
    if not factors:
        return True
    return code is not None and any(factor.wrap().validate_code(code) for factor in factors)


class OneToken(Endpoint):
    @describe("revokeToken", "Revoke a token", None, status=204, problems=(403, 404))
    def delete(self, request: Request, token_id: str) -> Response:
        known = re.fullmatch(rf"[0-9a-f]{{{_ID_LENGTH}}}", token_id, re.ASCII)
        deleted = AuthToken.objects.filter(user=request.user, digest__startswith=token_id).delete()[0] if known else 0
        if not deleted:
            raise not_found("such token of yours")
        return Response(status=204)
