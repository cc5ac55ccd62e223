"""Query parameters, declared as bodies are: unknown names and unreadable values are refused, never ignored."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import msgspec
from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter

from portal.api.problems import invalid
from scheduler.fields import INVALID, Choice, Field, FieldError, Text, Whole, shown


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time in ISO 8601 with its zone, or a day, which is its first moment in UTC."""

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, str) or len(value) > 64:
            remedy = "Give a time with its zone, such as 2026-04-19T12:00:00Z."
            errors.append(FieldError(path, "must be a point in time, as a string", remedy))
            return INVALID
        text = f"{value}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII) else value
        try:
            # A + in a query is a blank unless it was escaped.
            moment = parse_datetime(text.replace(" ", "+"))
            if moment is not None and moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            moment = None
        remedy = "Give a time with its zone, such as 2026-04-19T12:00:00Z, or a day."
        reason = "has no zone" if moment is not None else "is no point in time"
        errors.append(FieldError(path, f"{shown(value)} {reason}", remedy))
        return INVALID

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Digits:
    """A whole number as a query spells it."""

    number: Whole

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        return self.number.read(int(value) if re.fullmatch(r"\d{1,9}", value, re.ASCII) else value, path, errors)

    def schema(self) -> dict[str, Any]:
        return self.number.schema()


@dataclass(frozen=True, slots=True)
class Several:
    """A parameter that may come several times, or with commas; answers a tuple."""

    item: Field
    most: int = 32

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        words = value.split(",")
        if len(words) > self.most:
            errors.append(FieldError(path, f"has {len(words)} values", f"Give at most {self.most}."))
            return INVALID
        items = tuple(self.item.read(word, path, errors) for word in words)
        return INVALID if INVALID in items else items

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema()}


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of an endpoint: name → (field, default)."""

    fields: Mapping[str, tuple[Field, Any]]

    def read(self, given: QueryDict) -> dict[str, Any]:
        """Every parameter, defaults filled in.

        Raises:
            Problem: 400.
        """
        errors: list[FieldError] = []
        for name in sorted(given.keys() - self.fields.keys()):
            known = ", ".join(self.fields) or "none"
            errors.append(FieldError(shown(name), "there is no such parameter", f"Known here: {known}."))
        found = {name: self._one(name, given, errors) for name in self.fields}
        if errors:
            raise invalid(errors)
        return found

    def _one(self, name: str, given: QueryDict, errors: list[FieldError]) -> Any:
        field, default = self.fields[name]
        values = given.getlist(name)
        if not values:
            return default
        if len(values) > 1 and not isinstance(field, Several):
            errors.append(FieldError(name, "comes more than once", "Give it once."))
            return INVALID
        return field.read(",".join(values), name, errors)

    def parameters(self) -> list[OpenApiParameter]:
        return [
            OpenApiParameter(name, type=field.schema(), location="query", explode=True)
            for name, (field, _) in self.fields.items()
        ]


NO_PARAMETERS = Query({})
CURSOR = Text(512)


def limit(most: int, default: int) -> tuple[Field, int]:
    return Digits(Whole(1, most)), default


def one_of(choice: Choice) -> Field:
    return Several(choice)


def to_cursor(*place: str | int) -> str:
    """Where a page ended, as the client hands it back for the next one."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def from_cursor(cursor: str, shape: Any) -> Any:
    """The place that ``to_cursor`` was given, checked against ``shape`` (a tuple type).

    Raises:
        Problem: 400, it is none of ours.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=shape)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        remedy = "Give the next_cursor of the page before, or none for the first page."
        raise invalid([FieldError("cursor", "was not handed out here", remedy)]) from error
