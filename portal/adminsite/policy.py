"""The settings of the policy: the revision in force, those before it, and a form that makes the next one."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.forms.models import ModelFormMetaclass
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from portal.adminsite.site import administration
from scheduler import clock, policy_history
from scheduler.core.types import Policy, PolicyIntent
from scheduler.models import PolicyRevision
from scheduler.policy import CHOICES, NoPolicy, checked, policy_of

SETTINGS = {field.name: type(field.default) for field in fields(Policy)}


def _field(name: str, kind: type) -> forms.Field:
    label = name.removesuffix("_ms").replace("_", " ").capitalize() + (", ms" if name.endswith("_ms") else "")
    if kind is bool:
        return forms.BooleanField(required=False, label=label, widget=UnfoldBooleanSwitchWidget)
    if kind is int:
        return forms.IntegerField(label=label, widget=UnfoldAdminIntegerFieldWidget)
    if kind is Fraction:
        help_text = "An exact fraction from 0 to 1, such as 1/4."
        return forms.CharField(label=label, help_text=help_text, widget=UnfoldAdminTextInputWidget)
    if name in CHOICES:
        choices = [(choice, choice) for choice in CHOICES[name]]
        return forms.ChoiceField(label=label, choices=choices, widget=UnfoldAdminSelectWidget)
    help_text = "Weekly, in UTC, such as Mon 22:00-Tue 06:00, Sat 00:00-Mon 00:00. Empty: at any time."
    return forms.CharField(label=label, required=False, help_text=help_text, widget=UnfoldAdminTextInputWidget)


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """Every setting as it is in force, to be changed. ``seen`` is the revision that the form was filled from."""

    seen = forms.IntegerField(widget=forms.HiddenInput, min_value=0)

    class Meta:
        model = PolicyRevision
        fields = ("reason",)
        widgets = {"reason": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **more: Any) -> None:
        last = policy_history.current()
        self.in_force = policy_of(PolicyIntent(last.chosen, last.version) if last is not None else None)
        super().__init__(*args, **more)
        self.fields["seen"].initial = last.version if last is not None else 0
        for name in SETTINGS:
            self.fields[name].initial = getattr(self.in_force, name)

    def clean(self) -> dict[str, Any]:
        """The settings in their own types, under ``chosen`` those that are not the deployment's."""
        cleaned = super().clean() or {}
        deployed, chosen = policy_of(None), {}
        for name in SETTINGS:
            if name not in cleaned:
                continue
            try:
                value = checked(name, cleaned[name])
            except NoPolicy as error:
                self.add_error(name, error.reason)
                continue
            if value != getattr(deployed, name):
                chosen[name] = str(value) if isinstance(value, Fraction) else value
        cleaned["chosen"] = chosen
        last = policy_history.current()
        if "seen" in cleaned and cleaned["seen"] != (last.version if last is not None else 0):
            raise ValidationError("Somebody changed the policy while this form was open. Load it again.")
        return cleaned


NextPolicy = ModelFormMetaclass(
    "NextPolicy", (PolicyForm,), {name: _field(name, kind) for name, kind in SETTINGS.items()}
)


@admin.register(PolicyRevision, site=administration)
class Policies(ModelAdmin):  # type: ignore[misc]
    """The list is the history, newest first; adding one puts it in force. A revision never changes."""

    list_display = ("version", "at", "by", "reason", "changed")
    list_select_related = ("by",)
    search_fields = ("reason", "by__username")
    fields = ("version", "at", "by", "reason", "changed")

    def get_fields(self, request: HttpRequest, obj: PolicyRevision | None = None) -> Any:
        return self.fields if obj is not None else ("reason", *SETTINGS, "seen")

    def get_readonly_fields(self, request: HttpRequest, obj: PolicyRevision | None = None) -> Any:
        return self.fields if obj is not None else ()

    def get_form(self, request: HttpRequest, obj: PolicyRevision | None = None, **more: Any) -> Any:
        return NextPolicy if obj is None else super().get_form(request, obj, **more)

    @admin.display(description="Differs from the deployment in")
    def changed(self, revision: PolicyRevision) -> str:
        return ", ".join(f"{name} = {value}" for name, value in sorted(revision.chosen.items())) or "nothing"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, row: PolicyRevision, form: Any, change: bool) -> None:
        told = form.cleaned_data
        made = policy_history.change(told["chosen"], request.user, told["reason"], clock.now_ms(), told["seen"])  # type: ignore[arg-type]
        row.pk, row.version, row.at = made.pk, made.version, made.at
