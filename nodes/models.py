"""The hosts that people run jobs on, and the tokens by which their agents prove who they are."""

from __future__ import annotations

from django.db import models


class Node(models.Model):
    """A registered host. ``token_hash`` is SHA-256 of its agent's token; ``version`` numbers its intent in etcd."""

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
    version = models.PositiveIntegerField(default=1)
    registered_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class JoinToken(models.Model):
    """Lets so many agents register once each. Only its SHA-256 is kept."""

    token_hash = models.CharField(max_length=64, unique=True)
    uses_left = models.PositiveIntegerField(default=1)
    expires_at = models.DateTimeField()
