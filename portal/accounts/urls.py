"""The pages about one's own account: the second factor, and the way back from the provider."""

from __future__ import annotations

from allauth.account import views as account
from allauth.socialaccount import views as social
from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from portal.views.signin import sign_in, sign_out

urlpatterns: list[URLPattern | URLResolver] = [
    # The names by which the library knows the portal's own pages.
    path("sign-in/", sign_in, name="account_login"),
    path("sign-out/", sign_out, name="account_logout"),
    path("switched-off/", account.account_inactive, name="account_inactive"),
    path("confirm/", account.reauthenticate, name="account_reauthenticate"),
    path("second-factor/", include("allauth.mfa.urls")),
]

if settings.SOCIALACCOUNT_PROVIDERS:
    urlpatterns += [
        path("provider/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
        path("provider/error/", social.login_error, name="socialaccount_login_error"),
        path("provider/unknown/", social.signup, name="socialaccount_signup"),
        path("", include("allauth.socialaccount.providers.openid_connect.urls")),
    ]
