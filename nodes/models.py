"""The hosts that people run jobs on, and the tokens by which their agents prove who they are."""

from __future__ import annotations

from django.db import models


class Node(models.Model):
    """A registered host. ``token_hash`` is SHA-256 of its agent's token; ``version`` numbers its intent in etcd.

    ``windows`` are the maintenance windows to come or under way, ``[[start, end]]`` in milliseconds, as the rows of
    ``Maintenance`` have them. A host that was removed keeps its row, with ``removed_at`` and no token: its versions go
    on where they ended if it joins again, so that no intent of its former life can pass for a newer one.
    """

    name = models.CharField(max_length=128, primary_key=True)
    az = models.CharField(max_length=64)
    rack = models.CharField(max_length=64)
    gpu_type = models.CharField(max_length=32)
    gpus = models.PositiveSmallIntegerField()
    cpus = models.PositiveIntegerField()
    memory_gb = models.PositiveIntegerField()
    scratch_gb = models.PositiveIntegerField()
    spot = models.CharField(max_length=16, null=True, blank=True)
    nvlink = models.BooleanField(default=True)
    address = models.CharField(max_length=255, blank=True)
    token_hash = models.CharField(max_length=64, db_index=True)
    cordon_reason = models.TextField(null=True, blank=True)
    drain_reason = models.TextField(null=True, blank=True)
    windows = models.JSONField(default=list, blank=True)
    pardoned_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    registered_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Maintenance(models.Model):
    """A span of time in which hosts take no work and run none. ``open`` until it was cancelled or is over for good.

    ``place`` says in words what was chosen (``az1 rack-07``); ``by`` is the name of who asked for it.
    """

    nodes = models.ManyToManyField(Node, related_name="maintenances")
    place = models.CharField(max_length=200)
    start = models.DateTimeField()
    end = models.DateTimeField()
    reason = models.TextField()
    by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True, blank=True)
    open = models.BooleanField(default=True)

    class Meta:
        ordering = ["-start", "-pk"]
        indexes = [models.Index(fields=["end"], condition=models.Q(open=True), name="maintenance_open")]
        constraints = [
            models.CheckConstraint(condition=models.Q(end__gt=models.F("start")), name="maintenance_has_length")
        ]


class JoinToken(models.Model):
    """Lets so many agents register once each. Only its SHA-256 is kept."""

    token_hash = models.CharField(max_length=64, unique=True)
    uses_left = models.PositiveIntegerField(default=1)
    expires_at = models.DateTimeField()
