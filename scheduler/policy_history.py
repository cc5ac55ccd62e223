"""Changes of the policy by people: each is a revision with its reason, on its way to the scheduler like any intent."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import connection, transaction

from scheduler import clock, outbox
from scheduler.core.types import PolicyIntent
from scheduler.models import PolicyRevision
from scheduler.policy import checked
from scheduler.store import keys

_ONE_AT_A_TIME = 0x6761_6E67_7070
"""The advisory lock under which the next version is chosen."""


class Overtaken(Exception):
    """Somebody changed the policy since the revision that this change was made from."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the policy is at revision {current} by now")
        self.current = current


def current() -> PolicyRevision | None:
    """The revision in force; None while nobody has changed anything."""
    return PolicyRevision.objects.select_related("by").first()


def change(chosen: dict[str, Any], by: AbstractUser, reason: str, now_ms: int, seen: int) -> PolicyRevision:
    """Put these settings in force, in place of those of revision ``seen`` (0: none); others are the deployment's.

    Raises:
        NoPolicy: a setting is none, or its value.
        Overtaken: another revision came between.
    """
    for name, value in chosen.items():
        checked(name, value)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ONE_AT_A_TIME])
        last = current()
        version = last.version if last is not None else 0
        if version != seen:
            raise Overtaken(version)
        made = PolicyRevision.objects.create(
            version=version + 1, chosen=chosen, at=clock.to_datetime(now_ms), by_id=by.pk, reason=reason
        )
        outbox.enqueue(keys.INTENT_POLICY, PolicyIntent(chosen, made.version))
    return made
