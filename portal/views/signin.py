"""Signing in and out."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpResponse


class Credentials(AuthenticationForm):
    error_messages = {
        "invalid_login": "That user name and password do not belong together. Both are case-sensitive.",
        "inactive": "This account is switched off. An administrator can switch it on again.",
    }

    def clean(self) -> dict[str, Any]:
        """Each try counts for its address and for the name that it is about."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name and password:
            self.user_cache = get_adapter().authenticate(self.request, username=name, password=password)
            if self.user_cache is None:
                raise self.get_invalid_login_error()
            self.confirm_login_allowed(self.user_cache)
        return self.cleaned_data


class SignIn(views.LoginView):
    """Refusals are answered with 401, so that a browser's tools and tests see them for what they are."""

    template_name = "signin/page.html"
    authentication_form = Credentials
    redirect_authenticated_user = True

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        provider = settings.OIDC_NAME if settings.SOCIALACCOUNT_PROVIDERS else ""
        return super().get_context_data(provider=provider, **more)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Signed in, or sent on to the second factor."""
        answer: HttpResponse = perform_login(self.request, form.get_user(), redirect_url=self.get_success_url())
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=401)


sign_in = SignIn.as_view()
sign_out = views.LogoutView.as_view()
