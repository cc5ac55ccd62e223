"""Budgets and prices as people edit them: who may, what is wrong with it, and a line of the audit for each edit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from nodes import selectors as nodes
from portal.accounts.models import User
from portal.accounts.permissions import Standing
from portal.operations import Kind
from portal.quota_edit import admin_of
from quotas import rights
from quotas.models import Budget, Price, QuotaNode
from scheduler.budgets import MOST_HOURS, MOST_PERCENT
from scheduler.core.types import QuotaTree
from scheduler.fields import FieldError
from scheduler.models import Act

_WHOLE = re.compile(r"\d{1,11}", re.ASCII)
_PRICE = re.compile(r"\d{1,8}(\.\d{1,4})?", re.ASCII)
_TYPE = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)


class Wrong(ValueError):
    """The edit cannot be made. ``errors`` say why, field by field."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{one.field}: {one.reason}" for one in errors))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class WantedBudget:
    node: str
    period: str
    gpu_hours: int | None
    warn_percent: int
    stop_percent: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class WantedPrice:
    gpu_type: str
    since: date
    gpu_hour: Decimal
    reason: str


def budgetable(standing: Standing, tree: QuotaTree) -> set[str]:
    """The nodes whose budget the person sets: what a node gets is for an admin of its parent."""
    return rights.editable(tree, admin_of(standing))


def read_budget(typed: Mapping[str, str], may: set[str]) -> WantedBudget:
    """Raises Wrong. An empty ``gpu_hours`` takes the budget away, an empty ``stop_percent`` never stops."""
    errors: list[FieldError] = []
    node, period, reason = typed.get("node", ""), typed.get("period", ""), _reason(typed, errors)
    if node not in may:
        errors.append(FieldError("node", "is no node whose budget you may set", f"Choose of {_listed(may)}."))
    if period not in Budget.Period.values:
        errors.append(FieldError("period", "is neither month nor quarter", "Choose one of the two."))
    hours = _whole(typed, "gpu_hours", MOST_HOURS, errors)
    warn = _whole(typed, "warn_percent", MOST_PERCENT, errors)
    stop = _whole(typed, "stop_percent", MOST_PERCENT, errors)
    if errors:
        raise Wrong(errors)
    return WantedBudget(node, period, hours, 80 if warn is None else warn, stop, reason)


def read_price(typed: Mapping[str, str]) -> WantedPrice:
    """Raises Wrong."""
    errors: list[FieldError] = []
    gpu_type, reason = typed.get("gpu_type", ""), _reason(typed, errors)
    if not _TYPE.fullmatch(gpu_type):
        errors.append(
            FieldError("gpu_type", "is no name of a GPU type", f"Choose of {_listed(nodes.largest_zones())}.")
        )
    price = typed.get("gpu_hour", "").strip()
    if not _PRICE.fullmatch(price):
        remedy = "Give a number such as 2.50, with at most four decimals."
        errors.append(FieldError("gpu_hour", "is no price", remedy))
    since = _day(typed.get("since", ""))
    if since is None:
        errors.append(FieldError("since", "is no day", "Give a day such as 2026-01-31."))
    if errors or since is None:
        raise Wrong(errors)
    return WantedPrice(gpu_type, since, Decimal(price), reason)


def set_budget(user: User, wanted: WantedBudget, now: datetime) -> None:
    """The node has this budget from now on."""
    detail: dict[str, Any] = {
        "period": wanted.period,
        "gpu_hours": wanted.gpu_hours,
        "warn_percent": wanted.warn_percent,
        "stop_percent": wanted.stop_percent,
    }
    with transaction.atomic():
        node = QuotaNode.objects.get(name=wanted.node)
        Budget.objects.create(node=node, at=now, by=user, reason=wanted.reason, **detail)
        _note(user, Kind.BUDGET, wanted.node, wanted.reason, now, detail)


def set_price(user: User, wanted: WantedPrice, now: datetime) -> None:
    """An hour of a GPU of the type costs so much from that day on."""
    with transaction.atomic():
        before = Price.objects.filter(gpu_type=wanted.gpu_type, since=wanted.since).first()
        Price.objects.update_or_create(
            gpu_type=wanted.gpu_type, since=wanted.since, defaults={"gpu_hour": wanted.gpu_hour}
        )
        detail: dict[str, Any] = {
            "since": wanted.since.isoformat(),
            "gpu_hour": str(wanted.gpu_hour),
            "before": None if before is None else str(before.gpu_hour),
        }
        _note(user, Kind.PRICE, wanted.gpu_type, wanted.reason, now, detail)


def _note(user: User, kind: Kind, target: str, reason: str, now: datetime, detail: dict[str, Any]) -> None:
    Act.objects.create(at=now, by=user, act=kind.value, target=target, reason=reason, detail=detail)


def _reason(typed: Mapping[str, str], errors: list[FieldError]) -> str:
    reason = typed.get("reason", "").replace("\x00", "").strip()
    if not reason or len(reason) > 500:
        errors.append(FieldError("reason", "is missing or too long", "Say why, in 500 characters at most."))
    return reason


def _whole(typed: Mapping[str, str], field: str, most: int, errors: list[FieldError]) -> int | None:
    text = typed.get(field, "").strip()
    if not text:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > most:
        errors.append(FieldError(field, "is no whole number in bounds", f"Give a number from 0 to {most}, or nothing."))
        return None
    return int(text)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else None
    except ValueError:
        return None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
