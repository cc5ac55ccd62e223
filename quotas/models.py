"""The quota tree as people edit it. Its live copy, ``intent/quota``, is written from here through the outbox."""

from __future__ import annotations

from django.db import models

from quotas.ledger.models import Budget as Budget
from quotas.ledger.models import Charge as Charge
from quotas.ledger.models import Holding as Holding
from quotas.ledger.models import LedgerMark as LedgerMark
from quotas.ledger.models import Price as Price
from quotas.ledger.models import UsageDay as UsageDay


class QuotaNode(models.Model):
    """An organisation or a team. A node without children is a team, and jobs name it by ``name``."""

    name = models.SlugField(max_length=64, unique=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    share = models.DecimalField(max_digits=12, decimal_places=6, default=1, help_text="Weight among its siblings.")
    floor = models.JSONField(default=dict, blank=True, help_text='Guaranteed GPUs by type: {"H100": 16}')
    ceiling = models.JSONField(default=dict, blank=True, help_text="Most GPUs by type; absent: no bound.")
    min_runtime_s = models.PositiveIntegerField(default=0, help_text="Reclaim stops no job that has run for less.")
    p0_allowed = models.BooleanField(default=False)
    reclaim = models.CharField(max_length=8, choices=[("share", "share"), ("floor", "floor")], default="share")
    class_caps = models.JSONField(default=dict, blank=True, help_text='Most GPUs by priority: {"P0": 64}')

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class QuotaRevision(models.Model):
    """A whole tree as it once was applied; the highest ``version`` is in force."""

    version = models.PositiveIntegerField(unique=True)
    tree = models.JSONField()
    at = models.DateTimeField()
    by = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField(blank=True)
    edit = models.ForeignKey(
        "ScheduledEdit",
        null=True,
        on_delete=models.PROTECT,
        related_name="revisions",
        help_text="The scheduled edit that began or ended with this revision.",
    )


class ScheduledEdit(models.Model):
    """Fields of the tree that change at a time, for good or until another time. Kept when it is over.

    ``changes`` is what ``quotas.diff.as_json`` writes: before it begins, ``before`` is what was in force when it was
    made; from then on what was in force when it began, which is what its end goes back to. ``note`` says in words what
    could not be done.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        IN_FORCE = "in_force"
        APPLIED = "applied"
        REVERTED = "reverted"
        CANCELLED = "cancelled"
        FAILED = "failed"

    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    changes = models.JSONField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, help_text="When its fields go back; null: never.")
    made_at = models.DateTimeField()
    by = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField()
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["starts_at", "id"]
        indexes = [
            models.Index(
                fields=["state"], condition=models.Q(state__in=["waiting", "in_force"]), name="quota_edit_not_over"
            ),
        ]
