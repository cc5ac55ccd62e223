"""Reading a scenario's fields strictly: an unknown key, a bad unit or a wrong type names file, place and reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
MISSING: Any = object()

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


class NotAScenario(Exception):
    """The file is not a scenario. ``where`` is the place in it, such as ``events[3].submit.gpus``."""

    def __init__(self, file: str, where: str, why: str) -> None:
        super().__init__(f"{file}: {where}: {why}" if where else f"{file}: {why}")
        self.file = file
        self.where = where
        self.why = why


class Bad(ValueError):
    """A value is not what its key wants; ``Fields`` adds file and place."""


class Fields:
    """One mapping of the file, read key by key. ``done()`` refuses the keys that nobody asked for."""

    def __init__(self, file: str, where: str, value: Any) -> None:
        self.file = file
        self.where = where
        if not isinstance(value, Mapping):
            self.refuse(f"should be a mapping, is {_kind(value)}")
        # YAML 1.1 reads a bare `on` as true.
        self.written: dict[str, Any] = {"on" if key is True else str(key): item for key, item in value.items()}
        self._left = dict(self.written)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def keys(self) -> list[str]:
        """The keys that were not taken yet, in file order."""
        return list(self._left)

    def place(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def refuse(self, why: str, key: str = "") -> NoReturn:
        raise NotAScenario(self.file, self.place(key) if key else self.where, why)

    def take(self, key: str, read: Callable[[Any], T], default: Any = MISSING) -> T:
        """The value of ``key`` by ``read``, which raises ``Bad``; ``default`` where the key is absent."""
        if key not in self._left:
            if default is MISSING:
                self.refuse(f"{key!r} is missing")
            return default  # type: ignore[no-any-return]
        try:
            return read(self._left.pop(key))
        except Bad as bad:
            self.refuse(str(bad), key)

    def nested(self, key: str) -> Fields:
        """The mapping under ``key``."""
        return Fields(self.file, self.place(key), self.take(key, anything))

    def rows(self, key: str) -> list[Fields]:
        """The list of mappings under ``key``; empty where it is absent."""
        rows = self.take(key, list_of(anything), ())
        return [Fields(self.file, f"{self.place(key)}[{number}]", row) for number, row in enumerate(rows)]

    def done(self) -> None:
        for key in self._left:
            self.refuse(f"unknown key {key!r}")


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{value!r}"


def anything(value: Any) -> Any:
    return value


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Bad(f"should be text, is {_kind(value)}")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Bad(f"should be true or false, is {_kind(value)}")
    return value


def integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Bad(f"should be a whole number, is {_kind(value)}")
    return value


def at_least(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = integer(value)
        if number < least:
            raise Bad(f"should be at least {least}, is {number}")
        return number

    return read


def fraction(value: Any) -> Fraction:
    """A number from 0 on, exactly as it is written."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0 or value != value or value == 1e999:
        raise Bad(f"should be a number from 0 on, is {_kind(value)}")
    return Fraction(str(value))


def duration(value: Any) -> int:
    """A duration or a time, such as ``90s`` or ``1.5h``, in milliseconds."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Bad(f"should be a number with s, m, h or d, is {_kind(value)}")
    return round(Fraction(match[1]) * _UNITS_MS[match[2]])


def moment(value: Any) -> int:
    """An ISO 8601 point in time, UTC where it names no zone, in milliseconds since the epoch."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        raise Bad("should be a point in time such as 2026-03-29T00:00:00Z")
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def one_of(choices: Iterable[str]) -> Callable[[Any], str]:
    known = tuple(choices)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Bad(f"should be one of {', '.join(known)}, is {_kind(value)}")
        return str(value)

    return read


def list_of(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Bad(f"should be a list, is {_kind(value)}")
        return tuple(read(item) for item in value)

    return read_all


def one_or_list(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """A list, or one item in place of a list of one."""

    def read_all(value: Any) -> tuple[T, ...]:
        return list_of(read)(value if isinstance(value, list) else [value])

    return read_all


def gpus_by_type(value: Any) -> dict[str, int]:
    """``{H100: 16}``; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Bad(f"should be GPUs by type, such as {{H100: 16}}, is {_kind(value)}")
    return {text(kind): at_least(0)(count) for kind, count in value.items()}
