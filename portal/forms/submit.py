"""The submit form: the same fields, checks and words as ``POST /api/v1/jobs``, typed instead of sent as JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from django import forms

from scheduler.core.types import ANY_GPU_TYPE, Hint, NvLink, OnLoss
from scheduler.fields import FieldError
from scheduler.job_fields import Priority
from scheduler.requests import JobRequest, TeamRights, parse

PLACES = {
    "name": "name",
    "team": "team",
    "owner": "owner",
    "image": "image",
    "command": "command",
    "gpu_count": "resources.gpu_count",
    "gpu_type": "resources.gpu_type",
    "cpu_per_rank": "resources.cpu_per_rank",
    "memory_per_rank_gb": "resources.memory_per_rank_gb",
    "scratch_disk_gb": "resources.scratch_disk_gb",
    "topology_hint": "topology_hint",
    "topology_wait_minutes": "topology_wait_minutes",
    "nvlink": "resources.nvlink",
    "array_count": "array.count",
    "array_throttle": "array.throttle",
    "priority": "priority",
    "max_runtime_hours": "max_runtime_hours",
    "checkpoint_path": "checkpoint.path",
    "checkpoint_interval_minutes": "checkpoint.interval_minutes",
    "checkpoint_retain_last_n": "checkpoint.retain_last_n",
    "on_preemption": "restart_policy.on_preemption",
    "on_node_failure": "restart_policy.on_node_failure",
    "max_restarts": "restart_policy.max_restarts",
    "may_be_moved": "restart_policy.may_be_moved",
    "env": "env",
}
"""Field of the form → its place in the body."""

NUMBERS = frozenset(
    {
        *("gpu_count", "cpu_per_rank", "memory_per_rank_gb", "scratch_disk_gb", "max_runtime_hours"),
        *("topology_wait_minutes", "array_count", "array_throttle"),
        *("checkpoint_interval_minutes", "checkpoint_retain_last_n", "max_restarts"),
    }
)

FLAGS = {"may_be_moved": {"true": True, "false": False}}

PRIORITY_WORDS = {
    Priority.P0: "P0: urgent, a granted right",
    Priority.P1: "P1: important",
    Priority.P2: "P2: normal",
    Priority.P3: "P3: when there is room",
}
HINT_WORDS = {
    Hint.ANY: "Anywhere in one zone",
    Hint.PREFER_SAME_HOST: "One host if it can be had",
    Hint.PREFER_SAME_RACK: "One rack if it can be had",
    Hint.REQUIRE_SAME_HOST: "One host, or wait for it",
    Hint.REQUIRE_SAME_RACK: "One rack, or wait for it",
}
NVLINK_WORDS = {
    NvLink.ANY: "With NVLink or without",
    NvLink.PREFER: "With NVLink if it can be had",
    NvLink.REQUIRE: "With NVLink, or wait for it",
}
LOSS_WORDS = {
    OnLoss.RESUME: "Resume from its checkpoint",
    OnLoss.RESTART: "Start from the beginning",
    OnLoss.FAIL: "Fail",
}
BY_CHECKPOINT = ("", "Resume if it has a checkpoint, else start again")


class SubmitForm(forms.Form):
    """``asked`` is the body that was typed once it was looked at, ``request_made`` the request if it is in order."""

    name = forms.CharField(label="Name")
    team = forms.ChoiceField(label="Team")
    owner = forms.CharField(label="Owner", required=False, help_text="An e-mail address. Yours if left empty.")
    priority = forms.ChoiceField(label="Priority", choices=[(p.value, PRIORITY_WORDS[p]) for p in Priority])

    gpu_count = forms.CharField(label="GPUs", help_text="One rank each, all at the same moment or none.")
    gpu_type = forms.ChoiceField(label="GPU type")
    cpu_per_rank = forms.CharField(label="CPU cores a rank", required=False)
    memory_per_rank_gb = forms.CharField(label="Memory a rank, GB", required=False)
    scratch_disk_gb = forms.CharField(label="Scratch disk a host, GB", required=False)
    topology_hint = forms.ChoiceField(
        label="Where its ranks sit",
        choices=[(h.value, HINT_WORDS[h]) for h in Hint],
        help_text="A gang in one rack trains at InfiniBand's speed, across racks at Ethernet's.",
    )
    topology_wait_minutes = forms.CharField(
        label="Wait for it, minutes",
        required=False,
        help_text="For one rack, before it takes several. Empty: it takes what is free.",
    )
    nvlink = forms.ChoiceField(label="Hosts", required=False, choices=[(n.value, NVLINK_WORDS[n]) for n in NvLink])
    array_count = forms.CharField(
        label="How many alike", required=False, help_text="An array of jobs name[0], name[1] …. Empty: one job."
    )
    array_throttle = forms.CharField(label="At a time, at most", required=False)
    max_runtime_hours = forms.CharField(label="Time limit, hours", help_text="Shorter limits start sooner.")

    image = forms.CharField(label="Image")
    command = forms.CharField(
        label="Command",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Split into words as a shell would, then executed as it is: no shell runs it.",
    )
    env = forms.CharField(
        label="Environment",
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "NAME=value"}),
        help_text="One NAME=value a line.",
    )

    checkpoint_path = forms.CharField(
        label="Checkpoint path", required=False, help_text="s3://bucket/prefix/. Empty: the job cannot save its work."
    )
    checkpoint_interval_minutes = forms.CharField(label="Every, minutes", required=False)
    checkpoint_retain_last_n = forms.CharField(label="Keep the last", required=False)
    on_preemption = forms.ChoiceField(label="When preempted", required=False)
    on_node_failure = forms.ChoiceField(label="When a host fails", required=False)
    max_restarts = forms.CharField(
        label="Restarts at most",
        required=False,
        help_text="Counts exits of its own code. What the fleet does to it is not counted.",
    )

    may_be_moved = forms.ChoiceField(
        label="To make room for gangs",
        required=False,
        choices=[("", "It may be moved, saving first"), ("false", "It stays where it is")],
    )

    def __init__(
        self, *args: Any, rights: Mapping[str, TeamRights], gpu_types: Mapping[str, int], person: str, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.rights, self.gpu_types, self.person = rights, gpu_types, person
        self.asked: dict[str, Any] = {}
        self.request_made: JobRequest | None = None
        own = sorted(name for name, right in rights.items() if right.may_submit)
        self._choose("team", [(name, name) for name in own])
        self._choose("gpu_type", [(kind, kind) for kind in sorted(gpu_types)] + [(ANY_GPU_TYPE, "Any one type")])
        for name in ("on_preemption", "on_node_failure"):
            self._choose(name, [BY_CHECKPOINT] + [(loss.value, LOSS_WORDS[loss]) for loss in OnLoss])
        for name in self.fields.keys() & NUMBERS:
            self.fields[name].widget.attrs.update(inputmode="decimal", autocomplete="off", **{"class": "figures"})
        for field in self.fields.values():
            field.error_messages["required"] = "Fill this in."

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        self.asked = self.body()
        answer = parse(self.asked, self.rights, self.gpu_types, self.person)
        if isinstance(answer, JobRequest):
            self.request_made = answer if not self.errors else None
            return self.cleaned_data
        for error in answer:
            self.tell(error)
        return self.cleaned_data

    def tell(self, error: FieldError) -> None:
        """Put an error of the body beside the field that it comes from, once."""
        name = field_of(error.field)
        if name is not None and name in self.errors:
            return
        inner = error.field.removeprefix(PLACES[name]).strip(".") if name is not None else error.field
        words = f"{inner} {error.reason}" if inner else error.reason
        if words.partition(" ")[0] not in self.rights:  # a team's name is written as it is
            words = words[:1].upper() + words[1:]
        self.add_error(name, f"{words}. {error.remedy}")

    def body(self) -> dict[str, Any]:
        """What was typed, as the body of ``POST /api/v1/jobs``; what was left empty is left out."""
        body: dict[str, Any] = {}
        for name, place in PLACES.items():
            typed = self.cleaned_data.get(name)
            if typed in (None, "") or (name.startswith("checkpoint_") and not self.cleaned_data.get("checkpoint_path")):
                continue
            *inside, last = place.split(".")
            held = body.setdefault(inside[0], {}) if inside else body
            held[last] = number(typed) if name in NUMBERS else FLAGS[name][typed] if name in FLAGS else typed
        return body

    def clean_command(self) -> list[str]:
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError as error:
            raise forms.ValidationError(f"Cannot be split into words: {str(error).lower()}.") from error

    def clean_env(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for place, line in enumerate(self.cleaned_data["env"].splitlines(), start=1):
            if not line.strip():
                continue
            name, equals, value = line.strip().partition("=")
            if not equals:
                raise forms.ValidationError(f"Line {place} has no “=”. Write NAME=value.")
            if name in found:
                raise forms.ValidationError(f"Line {place} sets {name} again. Keep one of the two.")
            found[name] = value
        return found


def number(typed: str) -> int | float | str:
    """What JSON would have held: a number, or the text as it is, which ``parse`` then refuses in its own words."""
    if re.fullmatch(r"[+-]?\d{1,18}", typed, re.ASCII):
        return int(typed)
    if re.fullmatch(r"[+-]?\d{1,18}\.\d{1,18}", typed, re.ASCII):
        return float(typed)
    return typed


def field_of(path: str) -> str | None:
    """The field of the form that shows what is wrong at ``path`` of the body; None for the form as a whole."""
    for name, place in PLACES.items():
        if path == place or path.startswith((f"{place}[", f"{place}.")):
            return name
    return None


def initial_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The form's fields filled from a body that was accepted once, or that somebody pasted: unfit parts stay empty."""
    filled: dict[str, Any] = {}
    for name, place in PLACES.items():
        value: Any = body
        for step in place.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            filled[name] = _typed(name, value)
    return filled


def _typed(name: str, value: Any) -> str:
    if name == "command" and isinstance(value, list):
        return shlex.join(str(word) for word in value)
    if name == "env" and isinstance(value, Mapping):
        return "\n".join(f"{key}={text}" for key, text in value.items())
    return value if isinstance(value, str) else json.dumps(value)
