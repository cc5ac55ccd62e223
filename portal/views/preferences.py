"""How a person wants the pages to be: theme, density, single keys, time zone. Kept in cookies alone."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

CHOICES = {"theme": ("auto", "light", "dark"), "density": ("calm", "dense"), "keys": ("on", "off")}
"""The values of each preference; the first is what holds for someone who never chose."""
YEAR_S = 365 * 24 * 3600


def preference_of(request: HttpRequest | None, name: str) -> str:
    chosen = request.COOKIES.get(name) if request is not None else None
    return chosen if chosen in CHOICES[name] else CHOICES[name][0]


def zone_of(request: HttpRequest | None) -> ZoneInfo:
    """The zone that the browser told us of (static/js/times.js); UTC until it has, or if it is none that we know."""
    name = request.COOKIES.get("zone", "") if request is not None else ""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):
        return ZoneInfo("UTC")


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Keeps what was chosen and goes back to where it was chosen. Scripts ask with fetch and stay where they are."""
    back = request.POST.get("next", "/")
    allowed = url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure())
    response = HttpResponseRedirect(back if allowed else "/")
    for name, values in CHOICES.items():
        chosen = request.POST.get(name)
        if chosen in values:
            response.set_cookie(name, chosen, max_age=YEAR_S, samesite="Lax", secure=request.is_secure())
    return response
