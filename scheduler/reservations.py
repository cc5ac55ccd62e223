"""Reservations ahead of time: GPUs that a team shall find free from one moment to another.

The planner keeps them (``scheduler.core.bookings``); here they are wished for, called off, and let go when over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from quotas.models import QuotaNode
from scheduler import clock, outbox
from scheduler.core.types import ReservationIntent
from scheduler.models import Reservation
from scheduler.store import keys


class Over(Exception):
    """The reservation was cancelled, or its end has passed."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for; ``team`` is a leaf of the quota tree."""

    name: str
    team: str
    gpus: int
    gpu_type: str
    start: datetime
    end: datetime
    reason: str

    def intent(self, key: str, version: int = 1) -> ReservationIntent:
        span = clock.to_ms(self.start), clock.to_ms(self.end)
        return ReservationIntent(key, self.team, self.gpus, self.gpu_type, *span, version=version)


def reserve(wish: Wish, by: str, reservation_id: str, now: datetime) -> Reservation:
    """Keep the GPUs. ``reservation_id`` has never been used before.

    Raises:
        QuotaNode.DoesNotExist: there is no such team.
    """
    with transaction.atomic():
        row = Reservation.objects.create(
            id=reservation_id,
            name=wish.name,
            team=QuotaNode.objects.get(name=wish.team),
            gpus=wish.gpus,
            gpu_type=wish.gpu_type,
            start=wish.start,
            end=wish.end,
            reason=wish.reason,
            by=by,
            created_at=now,
        )
        outbox.enqueue(keys.intent_reservation(row.pk), wish.intent(row.pk))
        return row


def cancel(reservation_id: str, now: datetime) -> Reservation:
    """Call a reservation off, or end it before its time.

    Raises:
        Reservation.DoesNotExist: there is no such reservation.
        Over: it is over already.
    """
    with transaction.atomic():
        row = Reservation.objects.select_for_update(of=("self",)).select_related("team").get(pk=reservation_id)
        if not row.open or row.end <= now:
            raise Over(row.pk)
        row.cancelled_at = now
        _let_go(row)
        return row


def close(now: datetime) -> int:
    """Take those that are over out of the store; answers how many."""
    with transaction.atomic():
        over = list(Reservation.objects.select_for_update().filter(open=True, end__lte=now).order_by("pk"))
        for row in over:
            _let_go(row)
        return len(over)


def _let_go(row: Reservation) -> None:
    row.open = False
    row.version += 1
    row.save(update_fields=["open", "cancelled_at", "version"])
    outbox.enqueue_removal(keys.intent_reservation(row.pk), row.version)
