"""A job's checkpoints in PostgreSQL. Part of ``scheduler.models``."""

from __future__ import annotations

from enum import StrEnum

from django.db import models


class State(StrEnum):
    """What is known of a checkpoint."""

    REPORTED = "reported"
    """An agent says that it is complete; nobody has looked yet."""
    GOOD = "good"
    TORN = "torn"
    ELSEWHERE = "elsewhere"
    """It lies where Gangway does not look: it is taken on trust and never pruned."""
    PRUNING = "pruning"
    PRUNED = "pruned"


KEPT = (State.REPORTED, State.GOOD, State.TORN, State.ELSEWHERE)


class Checkpoint(models.Model):
    """One checkpoint, named by the address of its manifest.

    ``work_ms`` is the useful work that it holds, None where no agent has reported it. ``size`` (bytes), ``files`` and
    ``took_ms`` are as its manifest tells. ``look_at`` is when somebody should look at it (again), None for never;
    ``tries`` counts how often object storage could not be asked, since ``troubled_at``.
    """

    job = models.ForeignKey("scheduler.Job", on_delete=models.CASCADE, related_name="checkpoints")
    manifest = models.CharField(max_length=1400)
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    saved_at = models.DateTimeField()
    work_ms = models.BigIntegerField(null=True)
    state = models.CharField(max_length=16, choices=[(s.value, s.value) for s in State])
    why = models.CharField(max_length=300, blank=True)
    size = models.BigIntegerField(null=True)
    files = models.PositiveIntegerField(null=True)
    took_ms = models.BigIntegerField(null=True)
    checked_at = models.DateTimeField(null=True)
    look_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    troubled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "manifest"], name="one_row_a_manifest")]
        indexes = [
            models.Index(fields=["job", "-attempt", "-step"], name="checkpoint_newest"),
            models.Index(fields=["look_at"], condition=models.Q(look_at__isnull=False), name="checkpoint_due"),
        ]
