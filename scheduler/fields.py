"""Strict reading of JSON values. One declaration of a field gives its check and its place in the API's schema.

A field's ``read`` takes a value as JSON decoded it and answers the value wanted, or notes what is wrong, where, and
what to do about it, and answers ``INVALID``. Nothing is coerced: ``"64"`` and ``64.0`` are no whole numbers, ``true``
is no 1. Knows no Django.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

INVALID: Final = object()
"""Answered in place of a value that was refused; the refusal is in the list of errors."""

REQUIRED: Final = object()
"""The default of a field that must be given."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request. ``field`` is a path (``resources.gpu_count``, ``command[0]``; empty: the whole).

    ``code`` is ``invalid``, ``forbidden`` (a right is missing) or a code of ``scheduler.core.types.Reason``.
    """

    field: str
    reason: str
    remedy: str
    code: str = "invalid"


class Field(Protocol):
    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


def shown(value: Any) -> str:
    """A value as an error quotes it: one line, printable, short."""
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def kind_of(value: Any) -> str:
    """What JSON calls a value."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a whole number"),
        (float, "a number with a point or an exponent"),
        (list, "a list"),
        (dict, "an object"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _refuse(errors: list[FieldError], path: str, reason: str, remedy: str) -> Any:
    errors.append(FieldError(path, reason, remedy))
    return INVALID


@dataclass(frozen=True, slots=True)
class Text:
    """A string of ``least`` to ``most`` characters without control characters; ``lines`` allows tabs and line ends."""

    most: int
    least: int = 1
    lines: bool = False
    pattern: str | None = None
    wanted: str = ""
    """What the pattern asks for, in words."""

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, str):
            return _refuse(errors, path, f"must be a string, not {kind_of(value)}", "Put the value in quotes.")
        if len(value) < self.least or (self.least and not value.strip()):
            return _refuse(errors, path, "must not be empty", f"Give {self.least} to {self.most} characters.")
        if len(value) > self.most:
            reason = f"is {len(value)} characters long; at most {self.most} are taken"
            return _refuse(errors, path, reason, f"Shorten it to {self.most} characters.")
        control = (_CONTROL_BUT_LINES if self.lines else _CONTROL).search(value)
        if control:
            reason = f"holds the control character U+{ord(control.group()):04X} at position {control.start()}"
            return _refuse(errors, path, reason, "Remove it.")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return _refuse(errors, path, f"{shown(value)} is not {self.wanted}", f"Give {self.wanted}.")
        return value

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "string", "minLength": self.least, "maxLength": self.most}
        if self.pattern is not None:
            found |= {"pattern": f"^{self.pattern}$", "description": self.wanted}
        return found


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from ``least`` to ``most``, in ``unit``."""

    least: int
    most: int
    unit: str = ""

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        between = f"a whole number from {self.least} to {self.most}{self.unit and ' ' + self.unit}"
        if isinstance(value, bool) or not isinstance(value, int):
            got = f"{kind_of(value)}: {shown(value)}" if isinstance(value, str | float) else kind_of(value)
            return _refuse(errors, path, f"must be a whole number, not {got}", f"Give {between}.")
        if not self.least <= value <= self.most:
            return _refuse(errors, path, f"{_digits(value)} is outside {self.least}–{self.most}", f"Give {between}.")
        return value

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return found | ({"description": f"in {self.unit}"} if self.unit else {})


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number from ``least`` to ``most``, in ``unit``."""

    least: float
    most: float
    unit: str

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        between = f"a number of {self.unit} from {self.least:g} to {self.most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _refuse(errors, path, f"must be a number, not {kind_of(value)}", f"Give {between}.")
        if not self.least <= value <= self.most or not math.isfinite(value):
            reason = f"{_digits(value)} {self.unit} is outside {self.least:g}–{self.most:g}"
            return _refuse(errors, path, reason, f"Give {between}.")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most, "description": f"in {self.unit}"}


def _digits(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of about {value.bit_length() * 301 // 1000} digits"
    return str(value)


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, bool):
            return _refuse(errors, path, f"must be true or false, not {kind_of(value)}", "Give true or false.")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values of a string enum; answers the enum's member."""

    of: type[StrEnum]

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        known = ", ".join(member.value for member in self.of)
        if not isinstance(value, str):
            return _refuse(errors, path, f"must be a string, not {kind_of(value)}", f"Give one of: {known}.")
        if value not in {member.value for member in self.of}:
            return _refuse(errors, path, f"{shown(value)} is not known", f"Give one of: {known}.")
        return self.of(value)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": [member.value for member in self.of]}


@dataclass(frozen=True, slots=True)
class Nullable:
    """The field, or null (answered as None)."""

    field: Field

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        return None if value is None else self.field.read(value, path, errors)

    def schema(self) -> dict[str, Any]:
        inner = self.field.schema()
        return inner | {"type": [inner["type"], "null"]}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of ``least`` to ``most`` items; answers a tuple."""

    item: Field
    least: int
    most: int

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, list):
            return _refuse(errors, path, f"must be a list, not {kind_of(value)}", 'Give a list: ["…", "…"].')
        if not self.least <= len(value) <= self.most:
            reason = "must not be empty" if not value else f"has {len(value)} items; at most {self.most} are taken"
            return _refuse(errors, path, reason, f"Give {self.least} to {self.most} items.")
        items = tuple(self.item.read(one, f"{path}[{place}]", errors) for place, one in enumerate(value))
        return INVALID if any(one is INVALID for one in items) else items

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(), "minItems": self.least, "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object of at most ``most`` entries whose keys and values are both checked."""

    key: Text
    value: Field
    most: int

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, dict):
            return _refuse(errors, path, f"must be an object, not {kind_of(value)}", 'Give an object: {"NAME": …}.')
        if len(value) > self.most:
            reason = f"has {len(value)} entries; at most {self.most} are taken"
            return _refuse(errors, path, reason, "Give fewer.")
        found = {
            self.key.read(name, f"{path}.{_step(name)}", errors): self.value.read(one, f"{path}.{_step(name)}", errors)
            for name, one in value.items()
        }
        return INVALID if INVALID in found or any(one is INVALID for one in found.values()) else found

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": self.value.schema(),
            "propertyNames": self.key.schema(),
            "maxProperties": self.most,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """An object with just these fields: name → (field, default), ``REQUIRED`` where there is no default.

    Answers a dict with every field, defaults filled in; a field that was refused holds ``INVALID``, so that what
    depends on several fields can still be checked for the others.
    """

    fields: Mapping[str, tuple[Field, Any]]

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, dict):
            remedy = f"Give an object with the fields {', '.join(self.fields)}."
            return _refuse(errors, path, f"must be an object, not {kind_of(value)}", remedy)
        for name in sorted(value.keys() - self.fields.keys()):
            reason = f"there is no field {shown(name)}"
            _refuse(errors, _join(path, _step(name)), reason, f"Known here: {', '.join(self.fields)}.")
        return {name: self._field(name, value, path, errors) for name in self.fields}

    def _field(self, name: str, value: dict[str, Any], path: str, errors: list[FieldError]) -> Any:
        field, default = self.fields[name]
        if name in value:
            return field.read(value[name], _join(path, name), errors)
        if default is REQUIRED:
            return _refuse(errors, _join(path, name), "is missing", f"Give {_join(path, name)}.")
        return default

    def schema(self) -> dict[str, Any]:
        required = [name for name, (_, default) in self.fields.items() if default is REQUIRED]
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: _with_default(*declared) for name, declared in self.fields.items()},
            "additionalProperties": False,
        }
        return found | ({"required": required} if required else {})


def _with_default(field: Field, default: Any) -> dict[str, Any]:
    if default is REQUIRED or default is None or not isinstance(default, str | int | float):
        return field.schema()
    return field.schema() | {"default": str(default) if isinstance(default, StrEnum) else default}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _step(name: str) -> str:
    """A name that a stranger chose, as a step of a path."""
    return name if re.fullmatch(r"[\w-]{1,64}", name, re.ASCII) else shown(name)
