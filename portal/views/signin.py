"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth import views
from django.contrib.auth.forms import AuthenticationForm


class Credentials(AuthenticationForm):
    error_messages = {
        "invalid_login": "That user name and password do not belong together. Both are case-sensitive.",
        "inactive": "This account is switched off. An administrator can switch it on again.",
    }


class SignIn(views.LoginView):
    """Refusals are answered with 401, so that a browser's tools and tests see them for what they are."""

    template_name = "signin/page.html"
    authentication_form = Credentials
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm):  # type: ignore[no-untyped-def]
        return self.render_to_response(self.get_context_data(form=form), status=401)


sign_in = SignIn.as_view()
sign_out = views.LogoutView.as_view()
