"""The ledger in PostgreSQL, and the sums by day that pages read. Part of ``quotas.models``."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Charge(models.Model):
    """A line of the ledger: ``floor``, ``burst`` and ``lost`` GPUs from ``starts`` to ``ends``, within one ``day``.

    A trigger forbids to change or delete one; what turns out otherwise is a line of its own, with GPUs below zero.
    ``entry`` and ``position`` name the event of the journal that it was written for (``quota/…``: a revision of the
    tree). ``path`` holds the names from the root to the team as the tree was then, ``user`` is in lower case.
    """

    entry = models.CharField(max_length=80)
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=8)
    job = models.CharField(max_length=32)
    attempt = models.PositiveIntegerField()
    team = models.ForeignKey("QuotaNode", on_delete=models.PROTECT, related_name="+")
    user = models.CharField(max_length=254)
    saves = models.BooleanField()
    path = ArrayField(models.CharField(max_length=64))
    gpu_type = models.CharField(max_length=32)
    day = models.DateField(db_index=True)
    starts = models.DateTimeField()
    ends = models.DateTimeField()
    floor = models.IntegerField()
    burst = models.IntegerField()
    lost = models.IntegerField()
    jobs = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "entry", "position", "kind", "starts"], name="charged_once"),
            models.CheckConstraint(condition=models.Q(ends__gt=models.F("starts")), name="charge_has_length"),
        ]


class Holding(models.Model):
    """A gang that holds GPUs, and what of that is in no line yet: see ``quotas.ledger.book.Holding``."""

    job = models.CharField(max_length=32, primary_key=True)
    attempt = models.PositiveIntegerField()
    team = models.ForeignKey("QuotaNode", on_delete=models.PROTECT, related_name="+")
    user = models.CharField(max_length=254)
    saves = models.BooleanField()
    path = ArrayField(models.CharField(max_length=64))
    gpu_type = models.CharField(max_length=32)
    gpus = models.PositiveIntegerField()
    place = models.BigIntegerField()
    since = models.DateTimeField()
    stage = models.CharField(max_length=8)
    floor = models.PositiveIntegerField()
    counted = models.BooleanField()
    asked = models.DateTimeField(null=True)


class LedgerMark(models.Model):
    """How far the ledger is. There is one row, and whoever writes the ledger or its sums holds it.

    ``quota_version`` is the tree by which is charged, ``place`` the last place given, ``rolled_to`` the last line that
    the sums by day hold.
    """

    quota_version = models.PositiveIntegerField(default=0)
    place = models.BigIntegerField(default=0)
    rolled_to = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_ledger_mark")]


class UsageDay(models.Model):
    """What the lines of a day come to, in GPU-milliseconds. ``jobs`` are those that had GPUs for the first time."""

    day = models.DateField()
    team = models.ForeignKey("QuotaNode", on_delete=models.PROTECT, related_name="+", db_index=False)
    user = models.CharField(max_length=254)
    gpu_type = models.CharField(max_length=32)
    path = ArrayField(models.CharField(max_length=64))
    floor_ms = models.BigIntegerField()
    burst_ms = models.BigIntegerField()
    lost_ms = models.BigIntegerField()
    jobs = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["day", "team", "user", "gpu_type", "path"], name="one_sum_a_day"),
        ]


class Price(models.Model):
    """What an hour of a GPU of this type costs from a day on, until a later price of the type begins.

    The lost hours are priced too: their GPUs were held. A row is never changed by the portal: a price for the same day
    replaces the one that was there, and the audit tells of both.
    """

    gpu_type = models.CharField(max_length=32)
    since = models.DateField()
    gpu_hour = models.DecimalField(max_digits=12, decimal_places=4)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["gpu_type", "since"], name="one_price_a_day"),
            models.CheckConstraint(condition=models.Q(gpu_hour__gte=0), name="price_not_negative"),
        ]


class Budget(models.Model):
    """An edit of a node's budget; the newest of a node is in force. Rows are added, never changed.

    ``gpu_hours`` are what the node and all below it may hold in each ``period``; None: no budget any more. Past
    ``warn_percent`` of it people are warned, past ``stop_percent`` (None: never) no job of the node is taken in.
    """

    class Period(models.TextChoices):
        MONTH = "month"
        QUARTER = "quarter"

    node = models.ForeignKey("QuotaNode", on_delete=models.CASCADE, related_name="budgets")
    period = models.CharField(max_length=8, choices=Period.choices)
    gpu_hours = models.PositiveBigIntegerField(null=True)
    warn_percent = models.PositiveSmallIntegerField(default=80)
    stop_percent = models.PositiveSmallIntegerField(null=True, default=100)
    at = models.DateTimeField()
    by = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["node", "-id"], name="budget_of_node")]
