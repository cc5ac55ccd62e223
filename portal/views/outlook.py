"""The panel beside the submit form: what would become of what is typed so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST

from portal import foreseeing, submission
from portal.accounts.models import User
from portal.forms import job_text
from portal.forms.submit import PLACES, SubmitForm, field_of, initial_of
from portal.views import present
from portal.views.forms import Forms
from scheduler import outlook_words as words
from scheduler.core.preview import Outlook, Verdict
from scheduler.eta.published import Likely
from scheduler.foresight import Foresight
from scheduler.store.base import StoreUnavailable

STANDS_FOR = {"name": "preview", "image": "preview", "command": "true"}
"""What is asked with in place of what is not typed yet: none of it has a say in where and when a job runs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An alternative with the field of the form that it changes."""

    words: str
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Panel:
    """What the panel shows: the outlook, or what keeps it from being told.

    ``stale``: the live state cannot be read just now, so that the outlook is made of what was known last.
    """

    outlook: Outlook | None = None
    headline: str = ""
    where: str = ""
    link: str = ""
    slower: str = ""
    band: str = ""
    safety: list[str] = field(default_factory=list)
    stopped_gpus: int = 0
    likely: Likely | None = None
    offers: list[Offer] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    away: bool = False
    stale: bool = False
    now_ms: int = 0


@login_required
@require_POST
def outlook(request: HttpRequest) -> HttpResponse:
    """The panel as HTML and the job as text, for the form in the request."""
    forms = Forms(request)
    form = forms.make(data=request.POST)
    form.full_clean()
    style = request.POST.get("format", "")
    typed = {name: value for name, value in form.asked.items() if value not in ({}, [])}
    text = job_text.written(typed, style if style in job_text.FORMATS else job_text.FORMATS[0])
    html = render_to_string("submit/outlook.html", {"panel": panel_of(request, forms, request.POST)}, request)
    return JsonResponse({"html": html, "text": text})


@login_required
@require_POST
def filled(request: HttpRequest) -> HttpResponse:
    """The fields of the form for a job given as text: every one of them, empty where the text says nothing."""
    try:
        fields = initial_of(job_text.read(request.POST.get("text", "")))
    except job_text.NoJob as error:
        return JsonResponse({"error": str(error)})
    return JsonResponse({"fields": {name: fields.get(name, "") for name in PLACES}})


def panel_of(request: HttpRequest, forms: Forms, typed: QueryDict) -> Panel:
    """The outlook of what is typed, with the gaps filled that do not matter to it."""
    form = forms.make(data=_whole(typed))
    form.full_clean()
    try:
        asked, seen, now_ms = foreseeing.foresee(cast(User, request.user), form.asked)
    except StoreUnavailable:
        return Panel(away=True)
    except submission.Invalid as refused:
        return Panel(wrong=_told(form, refused))
    waits = seen.outlook.verdict is Verdict.WAITS
    return _panel(seen, asked.team, now_ms, foreseeing.likely_of_its_kind(asked, now_ms) if waits else None)


def _whole(typed: QueryDict) -> QueryDict:
    data = typed.copy()
    for name, stand_in in STANDS_FOR.items():
        if not data.get(name, "").strip():
            data[name] = stand_in
    return data


def _told(form: SubmitForm, refused: submission.Invalid) -> list[str]:
    found = []
    for error in refused.errors:
        name = field_of(error.field)
        label = form.fields[name].label if name is not None else error.field
        found.append(f"{label}: {error.reason}. {error.remedy}")
    return found


def _panel(seen: Foresight, team: str, now_ms: int, likely: Likely | None) -> Panel:
    found = seen.outlook
    place = found.place
    return Panel(
        outlook=found,
        headline=words.headline(found, now_ms),
        where=words.where(place) if place is not None else "",
        link=words.LINKS[place.speed.link] if place is not None else "",
        slower=words.slower(place) if place is not None else "",
        band=words.band(found.standing) if found.standing is not None else "",
        safety=words.safety(found.exposure, team) if found.exposure is not None else [],
        likely=likely,
        stopped_gpus=sum(victim.gpus for victim in found.victims),
        offers=[_offer(*words.change(one), words.alternative(one, now_ms)) for one in seen.alternatives],
        stale=not present.freshness().fresh,
        now_ms=now_ms,
    )


def _offer(place: str, value: Any, said: str) -> Offer:
    name = field_of(place)
    assert name is not None, f"the form has no field for {place}"
    return Offer(said, name, str(value))
