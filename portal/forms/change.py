"""The form that changes a submitted job: the fields, checks and words of ``PATCH /api/v1/jobs/{id}``, typed."""

from __future__ import annotations

from typing import Any

from django import forms

from portal import amending
from portal.forms.submit import PRIORITY_WORDS, number
from portal.submission import Invalid
from scheduler.fields import FieldError
from scheduler.job_fields import Priority
from scheduler.models import Job
from scheduler.requests import HOUR_MS


class ChangeForm(forms.Form):
    """``asked`` is what was typed, as ``portal.amending.read`` answers it; None until it is in order."""

    name = forms.CharField(label="Name", widget=forms.TextInput(attrs={"autocomplete": "off"}))
    priority = forms.ChoiceField(label="Priority", choices=[(p.value, PRIORITY_WORDS[p]) for p in Priority])
    max_runtime_hours = forms.CharField(
        label="Time limit, hours",
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off", "class": "figures"}),
    )

    def __init__(self, job: Job, data: Any = None) -> None:
        hours = job.max_runtime_ms / HOUR_MS
        kept = {
            "name": job.name,
            "priority": f"P{job.priority}",
            "max_runtime_hours": f"{hours:.4f}".rstrip("0").rstrip("."),
        }
        super().__init__(data, initial=kept)
        self.asked: dict[str, Any] | None = None
        for field in self.fields.values():
            field.error_messages["required"] = "Fill this in."

    def clean(self) -> dict[str, Any]:
        typed = {name: value for name, value in self.cleaned_data.items() if name in self.changed_data}
        if "max_runtime_hours" in typed:
            typed["max_runtime_hours"] = number(typed["max_runtime_hours"])
        try:
            self.asked = amending.read(typed)
        except Invalid as refused:
            for error in refused.errors:
                self.tell(error)
        return self.cleaned_data

    def tell(self, error: FieldError) -> None:
        """Put an error of the body beside its field."""
        words = error.reason[:1].upper() + error.reason[1:] if error.field != "priority" else error.reason
        self.add_error(error.field if error.field in self.fields else None, f"{words}. {error.remedy}")
