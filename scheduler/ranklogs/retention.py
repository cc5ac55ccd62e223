"""Removes the logs of jobs that ended long ago."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.core.types import TERMINAL
from scheduler.models import RankLog
from scheduler.ranklogs.archive import Archive

AT_A_TIME = 50


def prune(archive: Archive, now: datetime, keep: timedelta) -> int:
    """Remove the logs of some of the jobs that ended more than ``keep`` ago; answers of how many.

    Raises:
        ObjectsUnavailable: the rest stays for the next time.
    """
    old = RankLog.objects.filter(job__state__in=TERMINAL, job__ended_at__lt=now - keep)
    jobs = list(old.values_list("job_id", flat=True).distinct().order_by("job_id")[:AT_A_TIME])
    for job in jobs:
        archive.drop_job(job)
        RankLog.objects.filter(job_id=job).delete()
    return len(jobs)
