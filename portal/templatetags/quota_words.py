"""How the quota tree's fields and figures are written on its pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.views.share_words import percent
from quotas.diff import Value, fields
from scheduler.core.balance import Line
from scheduler.core.types import QuotaNode

register = template.Library()

FIELDS = {
    "parent": "under",
    "share": "share",
    "floor": "floor",
    "ceiling": "ceiling",
    "min_runtime_s": "least run time, s",
    "p0_allowed": "may submit P0",
    "reclaim": "takes back up to",
    "class_caps": "most GPUs in",
}


@register.simple_tag(takes_context=True)
def tab(context: Context, name: str, label: str) -> SafeString:
    """A link of the pages' own navigation, marked where one is."""
    match = context["request"].resolver_match
    current = SafeString(' aria-current="page"') if match is not None and match.url_name == name else ""
    return format_html('<a href="{}"{}>{}</a>', reverse(name), current, label)


@register.filter
def part(line: Line) -> str:
    """A node's part among its siblings."""
    return percent(line)


@register.filter
def quota_field(field: str) -> str:
    """``floor.H100`` → ``floor, H100``."""
    name, _, key = field.partition(".")
    words = FIELDS.get(name, name)
    return f"{words} {key} jobs" if name == "class_caps" else f"{words}, {key}" if key else words


@register.filter
def quota_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


@register.filter
def quota_of(node: QuotaNode, field: str) -> str:
    value = fields(node).get(field)
    return "–" if value is None else quota_value(value)


@register.filter
def sum_gpus(rows: Iterable[Any]) -> int:
    return sum(row.gpus for row in rows)


@register.filter
def minus(number: int, other: int) -> int:
    return number - other


@register.filter
def slugged(name: str) -> str:
    """An input's name as an id: without the characters that ids had better not have."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


@register.filter
def hours(number: float) -> str:
    """GPU-hours with as many digits as matter, thousands apart: ``0.25``, ``12.5``, ``14 210``."""
    text = f"{number:,.2f}" if number < 10 else f"{number:,.1f}" if number < 100 else f"{number:,.0f}"
    return text.replace(",", "\u202f")
