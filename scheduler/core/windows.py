"""Weekly windows in UTC, written ``Mon 22:00-Tue 06:00, Sat 00:00-Mon 00:00``: minutes of the week from Monday on."""

from __future__ import annotations

import re
from functools import lru_cache

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY, WEEK = 1440, 7 * 1440
MINUTE_MS = 60_000
EPOCH_DAY = 3
"""The Unix epoch was a Thursday."""

_MOMENT = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([0-2]?\d):([0-5]\d)"
_WINDOW = re.compile(rf"{_MOMENT} ?[-–] ?{_MOMENT}", re.ASCII)

Span = tuple[int, int]
"""Minutes of the week: the first one inside, and the first one outside, which is smaller where the week's end lies
between."""


@lru_cache(maxsize=64)
def read(text: str) -> tuple[Span, ...]:
    """The windows in ``text``; none where it is empty.

    Raises:
        ValueError: it is no list of windows; says what is wrong.
    """
    spans = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _WINDOW.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no window such as Mon 22:00-Tue 06:00")
        span = _minute(*found.group(1, 2, 3)), _minute(*found.group(4, 5, 6))
        if span[0] == span[1]:
            raise ValueError(f"{part!r} is empty")
        spans.append(span)
    return tuple(spans)


def _minute(day: str, hour: str, minute: str) -> int:
    if int(hour) > 23:
        raise ValueError(f"{hour}:{minute} is no time of day")
    return DAYS.index(day) * DAY + int(hour) * 60 + int(minute)


def minute_of_week(now_ms: int) -> int:
    return (now_ms // MINUTE_MS + EPOCH_DAY * DAY) % WEEK


def is_open(spans: tuple[Span, ...], now_ms: int) -> bool:
    """Whether the moment lies in one of the windows; it always does where there are none."""
    now = minute_of_week(now_ms)
    return not spans or any(_holds(span, now) for span in spans)


def _holds(span: Span, minute: int) -> bool:
    start, end = span
    return start <= minute < end if start < end else minute >= start or minute < end


def next_open_ms(spans: tuple[Span, ...], now_ms: int) -> int | None:
    """When the next window begins; None where there are none."""
    now = minute_of_week(now_ms)
    waits = [(start - now) % WEEK or WEEK for start, _ in spans]
    return (now_ms // MINUTE_MS + min(waits)) * MINUTE_MS if waits else None
