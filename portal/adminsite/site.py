"""The administration's own site: for administrators alone, signed in as everywhere else, with a policy of its own for
scripts, since its frame runs on inline ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from csp import constants as csp
from csp.decorators import csp_update
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.sites import UnfoldAdminSite

from portal.accounts.models import User

INLINE = {
    "script-src": [csp.SELF, csp.UNSAFE_INLINE, csp.UNSAFE_EVAL],
    "style-src": [csp.SELF, csp.UNSAFE_INLINE],
    "frame-ancestors": [csp.NONE],
}


class Administration(UnfoldAdminSite):  # type: ignore[misc]
    site_title = site_header = "Gangway administration"
    index_title = "Administration"
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        """An administrator is Django's superuser; nothing of this site is for anybody else."""
        return isinstance(request.user, User) and request.user.is_active and request.user.is_superuser

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Callable[..., Any]:
        guarded: Callable[..., Any] = csp_update(INLINE)(super().admin_view(view, cacheable))
        return guarded

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """By the portal's own page, so that a second factor and the limits on tries hold here too."""
        if request.user.is_authenticated:
            raise PermissionDenied("Only administrators may see the administration.")
        return redirect_to_login(request.GET.get("next", reverse("admin:index")))


class ReadOnly(ModelAdmin):  # type: ignore[misc]
    """Shown and searched, not edited here. A subclass may allow a single act."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


administration = Administration(name="admin")
