"""How a caller proves who it is: by bearer token, or, for the portal's own pages, by session with a CSRF token."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from portal.accounts import tokens


class BearerAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer <token>``. An invalid token is refused even where a session would do."""

    def authenticate(self, request: Request) -> tuple[object, object] | None:
        words = authentication.get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise exceptions.AuthenticationFailed("Give one token: Authorization: Bearer <token>.")
        token = tokens.find(words[1].decode("ascii", errors="replace"))
        if token is None:
            raise exceptions.AuthenticationFailed("The token is unknown, revoked or expired.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="gangway"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The session of a signed-in page; whatever changes something needs the page's CSRF token too."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise PermissionDenied(
                "The CSRF token is missing or wrong: send X-CSRFToken, or a bearer token."
            ) from error
