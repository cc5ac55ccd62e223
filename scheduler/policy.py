"""The policy that the live tick, the previews and the explanations decide by.

Its defaults are the core's, a deployment's settings come before them, and what people changed (``PolicyRevision``)
before those. The changes lie in the state store like every intent: whoever follows the store decides by the same.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from scheduler.core import windows
from scheduler.core.types import Policy, PolicyIntent

log = structlog.get_logger(__name__)

_KINDS: dict[str, Any] = {field.name: type(field.default) for field in fields(Policy)}
_LEAST = {
    "half_life_ms": 1,
    "quarantine_after": 1,
    "repair_every_ms": 1,
    "heartbeat_timeout_ms": 1,
    "rack_patience": 1,
    "flap_quarantine_ms": 1,
}
_MOST = 366 * 86_400_000
"""Whole numbers lie between 0 (or ``_LEAST``) and a year in milliseconds."""
ORDERS = ("gangway", "fifo", "easy")
REPAIRS = ("off", "propose", "auto")
CHOICES = {"order": ORDERS, "repair": REPAIRS}


class NoPolicy(ValueError):
    """``name`` is no setting, or ``value`` none that it could have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


_heard: PolicyIntent | None = None


def live_policy() -> Policy:
    """The policy in force, as far as this process has heard; before it has heard anything, that of the deployment."""
    return policy_of(_heard)


def hear(changed: PolicyIntent | None) -> Policy:
    """Take note of what the store holds; called by those who follow it. Answers the policy that this makes."""
    global _heard
    _heard = changed
    return policy_of(changed)


def policy_of(changed: PolicyIntent | None) -> Policy:
    """The deployment's policy with these changes. What an older or newer version wrote and this one does not know is
    left out, with a word in the log: a cluster goes on with the rest.

    Raises:
        ImproperlyConfigured: the deployment's own settings are none.
    """
    return _policy(_pairs(settings.GANGWAY_POLICY), _pairs(changed.settings if changed is not None else {}))


def checked(name: str, value: Any) -> Any:
    """The value of a setting of ``Policy``, in its own type.

    Raises:
        NoPolicy: it is none.
    """
    kind = _KINDS.get(name)
    if kind is None:
        raise NoPolicy(name, f"no setting is called {name!r}; there are {', '.join(_KINDS)}")
    if kind is Fraction:
        return _fraction(name, value)
    if name == "repair" and isinstance(value, bool):  # as it was chosen before there was a choice of three
        return "auto" if value else "off"
    if type(value) is not kind:
        raise NoPolicy(name, f"{name} is {value!r} and should be of type {kind.__name__}")
    if kind is int and not _LEAST.get(name, 0) <= value <= _MOST:
        raise NoPolicy(name, f"{name} is {value} and should be from {_LEAST.get(name, 0)} to {_MOST}")
    if name in CHOICES and value not in CHOICES[name]:
        raise NoPolicy(name, f"{name} is {value!r} and should be one of {', '.join(CHOICES[name])}")
    if name == "repair_windows":
        _check_windows(value)
    return value


def _check_windows(value: str) -> None:
    try:
        windows.read(value)
    except ValueError as error:
        raise NoPolicy("repair_windows", f"repair_windows: {error}") from error


def _fraction(name: str, value: Any) -> Fraction:
    try:
        if isinstance(value, int | str | Fraction) and not isinstance(value, bool):
            exact = Fraction(value)
            if 0 <= exact <= 1 and exact.denominator <= 1_000_000:
                return exact
    except (ValueError, ZeroDivisionError):
        pass
    raise NoPolicy(name, f"{name} is {value!r} and should be a fraction from 0 to 1, such as 1/4")


def _pairs(chosen: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(chosen.items()))


@lru_cache(maxsize=8)
def _policy(deployed: tuple[tuple[str, Any], ...], changed: tuple[tuple[str, Any], ...]) -> Policy:
    try:
        chosen = {name: checked(name, value) for name, value in deployed}
    except NoPolicy as error:
        raise ImproperlyConfigured(f"GANGWAY_POLICY: {error.reason}") from error
    for name, value in changed:
        try:
            chosen[name] = checked(name, value)
        except NoPolicy as error:
            log.error("a changed setting of the policy is left out", setting=name, why=error.reason)
    return Policy(**chosen)
