"""The queue as sockets show it: rows under keys that tell nothing, in the order in which they would be tried."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from django.conf import settings

from scheduler import selectors
from scheduler.core.types import Policy
from scheduler.eta.published import Etas
from scheduler.expected import SOON_MS, Expected
from scheduler.picture import Picture, Touched

SHOWN = 500
"""Rows that a live queue shows; ``total`` and ``gpus`` count all."""

STEADY_MS, STEADY_SHARE = 30_000, 50
"""A start is told anew once it has moved by this much and by one part in so many of the wait: a forecast trembles."""

STARTS = ("eta_ms", "p50_ms", "p90_ms")

NAMES = ("id", "name", "owner")
"""What of a row only those may see who may see the job."""


def key_of(job_id: str) -> str:
    """What stands for a job in the queue: the same for everyone and in every process, and no job's name."""
    secret = blake2b(settings.SECRET_KEY.encode(), digest_size=32, person=b"queue row").digest()
    return blake2b(job_id.encode(), key=secret, digest_size=8).hexdigest()


class QueueBoard:
    """``rows`` by key, and ``order``. The rows hold every job's name: ``redacted`` before they leave the house."""

    def __init__(
        self,
        picture: Picture,
        policy: Callable[[], Policy],
        now_ms: Callable[[], int],
        expected: Callable[[], Expected] = Expected,
        likely: Callable[[], Etas] = Etas,
    ) -> None:
        self._picture, self._policy, self._now_ms = picture, policy, now_ms
        self._expected, self._likely = expected, likely
        self._rows: dict[str, dict[str, Any]] = {}
        self._order: list[str] = []
        self._sums: dict[str, int] = {}

    def load(self) -> int:
        revision, self._rows, self._order, self._sums = self._read()
        return revision

    def take(self, touched: Touched) -> tuple[int, dict[str, Any] | None]:
        old_rows, old_order, old_sums = self._rows, self._order, self._sums
        revision, self._rows, self._order, self._sums = self._read()
        change: dict[str, Any] = {
            "put": [row for key, row in self._rows.items() if old_rows.get(key) != row],
            "gone": [key for key in old_rows if key not in self._rows],
        }
        if self._order != old_order:
            change["order"] = self._order
        if change["put"] or change["gone"] or "order" in change or self._sums != old_sums:
            return revision, change | self._sums
        return revision, None

    def snapshot(self) -> dict[str, Any]:
        return {"put": list(self._rows.values()), "order": self._order, **self._sums}

    def _read(self) -> tuple[int, dict[str, dict[str, Any]], list[str], dict[str, int]]:
        now_ms = self._now_ms()
        found = selectors.queue(
            self._picture, self._policy(), now_ms, limit=SHOWN, expected=self._expected(), likely=self._likely()
        )
        rows: dict[str, dict[str, Any]] = {}
        for row in found.rows:
            shown = asdict(row)
            # The place is told by ``order``: a job that leaves the head must not change every row behind it.
            shown["tried"] = shown.pop("position") is not None
            key = key_of(str(row.id))
            for name in STARTS:
                shown[name] = steady(self._rows.get(key, {}).get(name), shown[name], now_ms)
            rows[key] = {"key": key, **shown}
        return found.revision, rows, list(rows), {"total": found.total, "gpus": found.gpus}


def steady(told: int | None, eta_ms: int | None, now_ms: int) -> int | None:
    """The expected start as it is told: what was told before while that is about right, 0 for any moment."""
    if eta_ms is None:
        return None
    if eta_ms - now_ms < SOON_MS:
        return 0
    if told and abs(eta_ms - told) < max(STEADY_MS, (eta_ms - now_ms) // STEADY_SHARE):
        return told
    return eta_ms


def redacted(payload: dict[str, Any], teams: Collection[str] | None) -> dict[str, Any]:
    """The payload for somebody who may know the jobs of these teams by name; None: of all."""
    if teams is None or "put" not in payload:
        return payload
    hidden: dict[str, Any] = dict.fromkeys(NAMES)
    return payload | {"put": [row if row["team"] in teams else row | hidden for row in payload["put"]]}
