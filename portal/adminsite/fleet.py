"""Teams and hosts as they stand, and the tokens by which new hosts join."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from nodes.models import JoinToken, Node
from nodes.services import create_join_token
from nodes.tokens import token_hash
from portal.adminsite.site import ReadOnly, administration
from quotas.models import QuotaNode

MOST_USES = 10_000
MOST_HOURS = 24 * 90


@admin.register(QuotaNode, site=administration)
class Teams(ReadOnly):
    """The tree as it is in force. It is edited on the quota pages, where an edit is previewed and keeps its reason."""

    list_display = ("name", "parent", "share", "floor", "ceiling", "p0_allowed")
    list_select_related = ("parent",)
    search_fields = ("name",)
    list_filter = ("p0_allowed",)


@admin.register(Node, site=administration)
class Hosts(ReadOnly):
    """What was registered. On-call acts on hosts from the map, which shows first whom that hits."""

    list_display = ("name", "az", "rack", "gpu_type", "gpus", "spot", "address", "registered_at")
    list_filter = ("az", "gpu_type", "spot")
    search_fields = ("name", "rack", "address")
    exclude = ("token_hash",)


class NewJoinToken(forms.ModelForm):  # type: ignore[type-arg]
    uses = forms.IntegerField(
        min_value=1, max_value=MOST_USES, initial=1, label="For how many hosts", widget=UnfoldAdminIntegerFieldWidget
    )
    hours = forms.IntegerField(
        min_value=1, max_value=MOST_HOURS, initial=24, label="Good for, hours", widget=UnfoldAdminIntegerFieldWidget
    )

    class Meta:
        model = JoinToken
        fields = ()


@admin.register(JoinToken, site=administration)
class JoinTokens(ModelAdmin):  # type: ignore[misc]
    """Only a hash is kept: the secret is shown once, in the answer that made it."""

    form = NewJoinToken
    list_display = ("begins_with", "uses_left", "expires_at", "good")
    actions_on_top = True

    @admin.display(description="Hash begins with")
    def begins_with(self, token: JoinToken) -> str:
        return token.token_hash[:16]

    @admin.display(boolean=True)
    def good(self, token: JoinToken) -> bool:
        return token.uses_left > 0 and token.expires_at > timezone.now()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, row: JoinToken, form: NewJoinToken, change: bool) -> None:
        secret = secrets.token_urlsafe(32)
        expires = timezone.now() + timedelta(hours=form.cleaned_data["hours"])
        row.pk = create_join_token(secret, form.cleaned_data["uses"], expires).pk
        row.token_hash = token_hash(secret)
        messages.warning(request, f"The join token, shown this once: {secret}")
