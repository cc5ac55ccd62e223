"""What on-call agrees to of the moves that repair proposes, on its way to the scheduler.

The audit keeps what was agreed to (``Act``), the store what still is to be done: each wish stands for ten minutes, and
the leader does it if all is still as it was.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from scheduler import clock, outbox
from scheduler.core.moves import Proposal
from scheduler.core.types import AcceptedRepair, RepairIntent
from scheduler.models import Act
from scheduler.store import keys

STANDS = timedelta(minutes=10)
ACT = "repair"


def wish_of(proposal: Proposal, now: datetime) -> AcceptedRepair:
    """The wish to have the proposal done, from now on."""
    return proposal.accepted(clock.to_ms(now + STANDS))


def enqueue(now: datetime) -> None:
    """Tell the scheduler all that was agreed to lately. Call it in the transaction that wrote the last act."""
    recent = list(Act.objects.filter(act=ACT, at__gt=now - STANDS).order_by("pk"))
    wishes = tuple(msgspec.convert(act.detail["wish"], AcceptedRepair) for act in recent)
    outbox.enqueue(keys.INTENT_REPAIR, RepairIntent(wishes, version=recent[-1].pk))
