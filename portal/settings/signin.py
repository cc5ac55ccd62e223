"""Signing in: by name and password, by a second factor, and by an OpenID Connect provider where one is named.

``GANGWAY_OIDC_ISSUER``, ``_CLIENT_ID`` and ``_CLIENT_SECRET`` turn the provider on; ``GANGWAY_OIDC_NAME`` is what its
button says. Somebody whose address the provider has verified becomes the person of that address here;
``GANGWAY_OIDC_SIGNUP=off`` turns away those who are nobody here yet.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

OIDC_ISSUER = os.environ.get("GANGWAY_OIDC_ISSUER", "").rstrip("/")
OIDC_NAME = os.environ.get("GANGWAY_OIDC_NAME", "your organisation")
OIDC_SIGNUP = os.environ.get("GANGWAY_OIDC_SIGNUP", "on") != "off"

AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
ACCOUNT_ADAPTER = "portal.accounts.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*"]
ACCOUNT_RATE_LIMITS = {"login_failed": "20/m/ip,5/5m/key", "login": "60/m/ip", "reauthenticate": "10/m/user"}
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
ALLAUTH_TRUSTED_PROXY_COUNT = int(os.environ.get("GANGWAY_TRUSTED_PROXIES", "0"))
"""How many reverse proxies stand before the portal: the limits count the address that the outermost of them saw."""

MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Gangway"
MFA_TOTP_TOLERANCE = 1
MFA_ALLOW_UNVERIFIED_EMAIL = True
"""Addresses are given by an administrator or the provider; nobody signs up here by themselves."""

SOCIALACCOUNT_ADAPTER = "portal.accounts.adapters.ProviderAdapter"
SOCIALACCOUNT_AUTO_SIGNUP = True
SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = ""
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {}

if OIDC_ISSUER:
    if not os.environ.get("GANGWAY_OIDC_CLIENT_ID"):
        raise ImproperlyConfigured("GANGWAY_OIDC_ISSUER is set and GANGWAY_OIDC_CLIENT_ID is not")
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": os.environ["GANGWAY_OIDC_CLIENT_ID"],
                "secret": os.environ.get("GANGWAY_OIDC_CLIENT_SECRET", ""),
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }

OIDC_ORIGIN = "{0.scheme}://{0.netloc}".format(urlsplit(OIDC_ISSUER)) if OIDC_ISSUER else ""
"""Where the sign-in page's button leads: a form may send people there."""
