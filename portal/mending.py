"""Moves that repair proposes, as on-call sees them and agrees to them."""

from __future__ import annotations

from portal import operations
from portal.accounts.models import User
from scheduler import clock
from scheduler.core.moves import Proposal
from scheduler.foresight import foreseer
from scheduler.picture import picture
from scheduler.policy import live_policy


class Gone(Exception):
    """What was proposed is not so any more."""


def mode() -> str:
    return live_policy().repair


def proposals() -> list[Proposal]:
    """What could be moved now.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    return foreseer().moves(picture(), live_policy(), clock.now_ms())


def accept(user: User, proposal_id: str, reason: str) -> Proposal:
    """Have the moves made, as they are proposed now under this id; it is written in the audit.

    Raises:
        Gone: there is no such proposal any more.
        StoreUnavailable: the live state was never loaded.
    """
    found = next((one for one in proposals() if one.id == proposal_id), None)
    if found is None:
        raise Gone(proposal_id)
    operations.agree(user, found, reason)
    return found
