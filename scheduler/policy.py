"""The policy that the live tick, the previews and the explanations decide by."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from scheduler.core.types import Policy

_KINDS: dict[str, Any] = {field.name: type(field.default) for field in fields(Policy)}


def live_policy() -> Policy:
    """The policy of ``settings.GANGWAY_POLICY``, a dictionary of ``Policy``'s fields; what it leaves out is default."""
    return _policy(tuple(sorted(settings.GANGWAY_POLICY.items())))


@cache
def _policy(chosen: tuple[tuple[str, Any], ...]) -> Policy:
    return Policy(**{name: _checked(name, value) for name, value in chosen})


def _checked(name: str, value: Any) -> Any:
    kind = _KINDS.get(name)
    if kind is None:
        raise ImproperlyConfigured(f"GANGWAY_POLICY: no setting is called {name!r}; there are {', '.join(_KINDS)}")
    if kind is Fraction and isinstance(value, int | str | Fraction) and not isinstance(value, bool):
        return Fraction(value)
    if type(value) is not kind:
        raise ImproperlyConfigured(f"GANGWAY_POLICY: {name} is {value!r} and should be of type {kind.__name__}")
    return value
