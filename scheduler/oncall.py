"""What on-call does, and the past of the map, in PostgreSQL. Part of ``scheduler.models``."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from quotas.models import QuotaNode


class Reservation(models.Model):
    """GPUs that a team shall find free from ``start`` to ``end``. ``id`` names its intent in etcd.

    ``open`` until it was cancelled or is over and its intent has left etcd.
    """

    id = models.CharField(max_length=32, primary_key=True)
    name = models.CharField(max_length=128)
    team = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="reservations")
    gpus = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=32)
    start = models.DateTimeField()
    end = models.DateTimeField()
    reason = models.TextField()
    by = models.CharField(max_length=150)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True, blank=True)
    open = models.BooleanField(default=True)

    class Meta:
        ordering = ["-start", "-pk"]
        indexes = [models.Index(fields=["end"], condition=models.Q(open=True), name="reservation_open")]
        constraints = [
            models.CheckConstraint(condition=models.Q(end__gt=models.F("start")), name="reservation_has_length")
        ]


class AppendOnly(Exception):
    """Somebody tried to change or delete what is kept for good."""


class _Appended(models.QuerySet["Act"]):
    def update(self, **_: Any) -> int:
        raise AppendOnly("acts are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnly("acts are never deleted")


class Act(models.Model):
    """Something that a person did to the fleet or to somebody else's job. Never changed, never deleted.

    ``target`` says in words what it was done to, ``nodes`` names the hosts and ``job`` the job. ``radius`` is the blast
    radius as it was known right before (``scheduler.core.blast``), ``detail`` what else was asked for.
    """

    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="acts")
    act = models.CharField(max_length=32)
    target = models.CharField(max_length=200)
    nodes = models.JSONField(default=list, blank=True)
    job = models.CharField(max_length=32, blank=True)
    reason = models.TextField(blank=True)
    radius = models.JSONField(null=True, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    objects = _Appended.as_manager()

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [
            models.Index(fields=["-at", "-id"], name="act_newest"),
            models.Index(fields=["act", "-at"], name="act_by_kind"),
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise AppendOnly("acts are never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnly("acts are never deleted")


class MapFrame(models.Model):
    """Who held which GPUs and how the hosts were, after all events up to ``revision``: see ``scheduler.replay``."""

    revision = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    state = models.JSONField()


class StoreOutage(models.Model):
    """A time in which a store (etcd, postgresql, redis, s3) did not answer: recorded once it did again."""

    store = models.CharField(max_length=16)
    start = models.DateTimeField()
    end = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-start", "-pk"]
        constraints = [models.CheckConstraint(condition=models.Q(end__gt=models.F("start")), name="outage_has_length")]
