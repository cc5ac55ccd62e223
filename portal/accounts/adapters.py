"""What Gangway decides about signing in, for the library that does it."""

from __future__ import annotations

from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.http import HttpRequest
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "too_many_login_attempts": "Too many tries. Wait a few minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody makes an account for themselves: an administrator does, or the provider."""
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the try. Without the cache nobody is counted, and everybody may still sign in."""
        try:
            super().pre_authenticate(request, **credentials)
        except RedisError as error:
            log.warning("sign-in is not limited: the cache is away", error=str(error))

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Gangway sends no mail; what the library would write is shown on the pages."""


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whether the provider's people who are nobody here yet become somebody, of no team."""
        return bool(settings.OIDC_SIGNUP)
