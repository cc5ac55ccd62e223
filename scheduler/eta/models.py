"""Versions of the model of run times, and the starts that were told, with what came of them."""

from __future__ import annotations

from django.db import models


class RunTimeModel(models.Model):
    """A version of the model. It lies in object storage under ``key``; of those that were ever promoted the newest is
    in service.

    ``loss`` is its pinball loss (of logarithms, the mean over P50 and P90) on the newest week, which it was not trained
    on; ``loss_before`` that of what was in service then, on the same jobs.
    """

    trained_at = models.DateTimeField()
    key = models.CharField(max_length=255)
    jobs = models.PositiveIntegerField()
    loss = models.FloatField()
    loss_before = models.FloatField()
    promoted = models.BooleanField(default=False)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"Run times {self.pk}"


class StartTold(models.Model):
    """The start of a waiting job as it was told at ``at``; a row when it is first told, and whenever it moved.

    ``raw_s`` is the wait that the rolls told, before it was set right. ``basis`` says what the run times were taken
    from: ``model``, or the rungs of the ladder. ``why`` is why it moved, empty for the first. ``came`` is when the job
    was bound; with ``void`` it never will be, or nobody can say.
    """

    job = models.CharField(max_length=32)
    team = models.CharField(max_length=64)
    gpus = models.PositiveIntegerField()
    at = models.DateTimeField()
    p50 = models.DateTimeField()
    p90 = models.DateTimeField()
    raw_s = models.FloatField()
    basis = models.CharField(max_length=16)
    why = models.CharField(max_length=32, blank=True)
    came = models.DateTimeField(null=True)
    void = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["job", "-at"], name="told_by_job"),
            models.Index(fields=["at"], name="told_by_time"),
            models.Index(fields=["job"], condition=models.Q(came=None, void=False), name="told_open"),
        ]

    def __str__(self) -> str:
        return f"{self.job} at {self.at:%Y-%m-%d %H:%M}"
