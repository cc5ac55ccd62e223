"""JSON as strictly as it should have been: one meaning, no surprises further in.

Refused, with the place named: what is no JSON, names that come twice in an object, NaN and infinities, numbers out of
all proportion, invalid UTF-8, NUL characters and lone surrogates anywhere, nesting beyond reason, bodies too large.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from portal.api.problems import Problem, invalid
from scheduler.fields import FieldError, shown

MOST_BYTES = 256 * 1024
MOST_DEPTH = 20


class _Refused(Exception):
    """What is wrong, where, and what to do about it."""

    def __init__(self, reason: str, remedy: str, path: str = "") -> None:
        super().__init__(reason)
        self.error = FieldError(path, reason, remedy)


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        """The decoded body.

        Raises:
            Problem: 413 for too large a body, 400 for one that is not strict JSON.
        """
        request = (parser_context or {}).get("request")
        declared = request.META.get("CONTENT_LENGTH") if request is not None else None
        if declared and declared.isdecimal() and int(declared) > MOST_BYTES:
            raise too_large()
        raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise too_large()
        return decode(raw)


def too_large() -> Problem:
    return Problem(413, f"The body is larger than {MOST_BYTES} bytes, which is the most that is taken.")


def decode(raw: bytes) -> Any:
    """The value that ``raw`` holds.

    Raises:
        Problem: 400, it is not strict JSON.
    """
    try:
        value = json.loads(
            raw.decode(), object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole
        )
        _check(value, "", MOST_DEPTH)
    except _Refused as refused:
        raise invalid([refused.error]) from refused
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8: byte {error.start} cannot be read"
        raise invalid([FieldError("", reason, "Encode the body as UTF-8.")]) from error
    except json.JSONDecodeError as error:
        reason = f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise invalid([FieldError("", reason, "Mend the JSON there.")]) from error
    except RecursionError as error:
        raise invalid([_too_deep("").error]) from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Refused(f"holds {shown(name)} twice in one object", "Leave one of the two.")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise _Refused(f"holds {name}, which is no JSON", "Give a number, or null.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"holds the number {shown(text)}, which is too large", "Give a smaller one.")
    return value


def _whole(text: str) -> int:
    if len(text) > 400:
        raise _Refused(f"holds a number of {len(text)} digits", "Give a smaller one.")
    return int(text)


def _too_deep(path: str) -> _Refused:
    return _Refused(f"is nested deeper than {MOST_DEPTH} levels", "Nothing here is nested so deeply.", path)


def _check(value: Any, path: str, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, Mapping | list) and not depth:
        raise _too_deep("")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _check_text(name, path)
            _check(item, f"{path}.{name}" if path else name, depth - 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _check(item, f"{path}[{place}]", depth - 1)


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise _Refused("holds a NUL character", "Remove it.", path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"holds the lone surrogate U+{ord(text[error.start]):04X}, which is half a character"
        raise _Refused(reason, "Give both halves, or the character itself.", path) from error
