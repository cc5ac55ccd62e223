"""How figures, times and states are written on the pages: one way each, everywhere."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.http import HttpRequest
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.forms.submit import HINT_WORDS
from portal.views.preferences import preference_of, zone_of
from portal.views.words import duration_words, gpu_hours_words, reason_words
from scheduler.core.types import Hint
from scheduler.eta.telling import BASES
from scheduler.expected import SOON_MS

register = template.Library()

NO_VALUE = "–"
SECTION = {
    "submit": "jobs",
    "job": "jobs",
    "job-change": "jobs",
    "jobs-bulk": "jobs",
    "node": "nodes",
    "operate": "nodes",
    "audit": "incidents",
    "share": "quotas",
    "usage": "quotas",
    "budgets": "quotas",
    "quota-edit": "quotas",
    "quota-history": "quotas",
}
"""Pages without an entry of their own in the main navigation, and the entry that they belong under."""


@register.simple_tag(takes_context=True)
def preference(context: Context, name: str) -> str:
    return preference_of(context.get("request"), name)


@register.simple_tag(takes_context=True)
def zone(context: Context) -> str:
    return zone_of(context.get("request")).key


@register.simple_tag(takes_context=True)
def navlink(context: Context, name: str, label: str) -> SafeString:
    match = context["request"].resolver_match
    here = match is not None and SECTION.get(match.url_name, match.url_name) == name
    current = SafeString(' aria-current="page"') if here else ""
    return format_html('<a href="{}" data-go="{}"{}>{}</a>', reverse(name), name, current, label)


@register.simple_tag(takes_context=True)
def when(context: Context, at: datetime | int | None) -> SafeString | str:
    """A point in time in the reader's zone, UTC on hover. ``at`` is aware, or milliseconds since the epoch."""
    if at is None:
        return NO_VALUE
    moment = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at.astimezone(UTC)
    return _time(moment, zone_of(_request(context)))


def _request(context: Context) -> HttpRequest | None:
    return context.get("request")


def _time(moment: datetime, where: ZoneInfo) -> SafeString:
    return format_html(
        '<time class="figures nowrap" datetime="{}" title="{} UTC">{}</time>',
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        moment.strftime("%Y-%m-%d %H:%M:%S"),
        moment.astimezone(where).strftime("%d %b %H:%M:%S"),
    )


@register.simple_tag
def elapsed(start: datetime | int | None, now_ms: int) -> SafeString | str:
    """How long since ``start``, counted on by the page while it is open."""
    if start is None:
        return NO_VALUE
    start_ms = start if isinstance(start, int) else int(start.timestamp() * 1000)
    return format_html(
        '<span class="figures nowrap" data-since="{}">{}</span>', start_ms, duration_words(max(0, now_ms - start_ms))
    )


@register.simple_tag(takes_context=True)
def likely(context: Context, row: Any, now_ms: int) -> SafeString | str:
    """When a waiting job starts: likely by, and nine times in ten by; else at the latest, by limits."""
    if row.p50_ms is None:
        return expected(context, row.eta_ms, now_ms)
    if row.p90_ms - now_ms < SOON_MS:
        return "any moment"
    return format_html(
        '<span class="likely">{} <span class="quiet small">90 %: {}</span></span>',
        expected(context, row.p50_ms, now_ms),
        expected(context, row.p90_ms, now_ms),
    )


@register.simple_tag(takes_context=True)
def expected(context: Context, at_ms: int | None, now_ms: int) -> SafeString | str:
    """How long until an expected moment, counted down by the page; the moment itself on hover."""
    if at_ms is None:
        return format_html('<span class="quiet">{}</span>', "unknown")
    if at_ms - now_ms < SOON_MS:
        return "any moment"
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return format_html(
        '<span class="figures nowrap" data-until="{}" title="{}">in {}</span>',
        at_ms,
        moment.astimezone(zone_of(_request(context))).strftime("%d %b %H:%M"),
        duration_words(at_ms - now_ms),
    )


@register.filter
def duration(span: int | float | timedelta | None) -> str:
    """Milliseconds (or a timedelta) in words: ``4 min 12 s``, ``3 h 05 min``, ``6 d 4 h``."""
    if span is None:
        return NO_VALUE
    return duration_words(int(span.total_seconds() * 1000) if isinstance(span, timedelta) else int(span))


@register.filter
def gpu_hours(gpu_ms: int) -> str:
    return gpu_hours_words(gpu_ms)


@register.filter
def grouped(number: int | None) -> str:
    """An integer with thin spaces between its thousands."""
    return NO_VALUE if number is None else f"{number:,}".replace(",", "\u202f")


@register.filter
def gib(mib: float) -> str:
    """MiB as GiB, which GPUs have dozens of."""
    return f"{mib / 1024:.0f}"


@register.filter(name="bytes")
def byte_words(size: int | None) -> str:
    """A number of bytes in the unit that suits it: ``512 B``, ``1.4 GB``."""
    if size is None:
        return NO_VALUE
    for unit, per in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= per:
            return f"{size / per:.1f}\u202f{unit}"
    return f"{size}\u202fB"


@register.filter
def ranges(indices: list[int] | tuple[int, ...]) -> str:
    """Ascending indices as people write them: ``0–3, 6``."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


@register.inclusion_tag("parts/state.html")
def state(value: Any, large: bool = False) -> dict[str, Any]:
    """A job's phase or a host's state: its shape, its word, its colour."""
    key = str(value).lower()
    return {"key": key, "word": key.capitalize(), "large": large}


@register.simple_tag(takes_context=True)
def with_query(context: Context, **changes: Any) -> str:
    """The page's query string with some parameters changed; None drops one. A filter's link never loses another's."""
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            query.pop(name, None)
        else:
            query[name] = str(value)
    return "?" + query.urlencode()


@register.filter
def reason_short(code: str | None) -> str:
    return reason_words(code)


@register.filter
def priority_name(priority: int) -> str:
    return f"P{priority}"


@register.filter
def since(end: datetime, start: datetime) -> str:
    return duration(end - start)


@register.filter
def words(text: str) -> list[str]:
    return text.split()


@register.filter
def as_typed(command: list[str] | None) -> str:
    """An argument list as one would type it in a shell."""
    return shlex.join(str(word) for word in command or [])


@register.filter
def hint_words(hint: str) -> str:
    return str(HINT_WORDS.get(Hint(hint), hint))


@register.filter
def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", "\u202f%")


@register.filter
def basis_words(basis: str) -> str:
    return BASES.get(basis, basis)


@register.filter
def ago(start_ms: int, now_ms: int) -> str:
    return duration_words(max(0, now_ms - start_ms))


@register.filter
def at(held: dict[str, Any], key: str) -> Any:
    return held.get(key, "")


@register.filter
def plus(first: int, rows: list[Any]) -> int:
    """The number of the last of ``rows`` where the first one has number ``first``."""
    return first + len(rows) - 1
