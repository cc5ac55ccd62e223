"""The index of ranks' logs in PostgreSQL. Part of ``scheduler.models``."""

from __future__ import annotations

from django.db import models


class RankLog(models.Model):
    """What one rank of one attempt has written.

    ``pieces`` are the stretches kept, ``[[start, end], …]`` in bytes, each of them one object; ``size`` is up to where
    the log is known, ``kept`` how many bytes of it are kept. ``over``: the rank has ended and nothing more comes.
    """

    job = models.ForeignKey("scheduler.Job", on_delete=models.CASCADE, related_name="logs")
    attempt = models.PositiveIntegerField()
    rank = models.PositiveIntegerField()
    pieces = models.JSONField(default=list)
    size = models.BigIntegerField(default=0)
    kept = models.BigIntegerField(default=0)
    over = models.BooleanField(default=False)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "rank"], name="one_log_a_rank")]
