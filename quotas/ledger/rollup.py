"""The sums by day, kept up with the ledger. Done again, or by two at once, it changes nothing."""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import Max

from quotas.models import Charge, LedgerMark

LINES = 200_000
"""Lines summed up in one transaction: the recorder waits that long at most."""

LENGTH = "(extract(epoch FROM ends - starts) * 1000)::bigint"

# Only names of this module's own make it up.
_ADD = f"""
    INSERT INTO quotas_usageday (day, team_id, "user", gpu_type, path, floor_ms, burst_ms, lost_ms, jobs)
    SELECT day, team_id, "user", gpu_type, path,
           sum(floor * {LENGTH}), sum(burst * {LENGTH}), sum(lost * {LENGTH}), sum(jobs)
    FROM quotas_charge WHERE id > %s AND id <= %s
    GROUP BY day, team_id, "user", gpu_type, path
    ON CONFLICT (day, team_id, "user", gpu_type, path) DO UPDATE
    SET floor_ms = quotas_usageday.floor_ms + excluded.floor_ms,
        burst_ms = quotas_usageday.burst_ms + excluded.burst_ms,
        lost_ms = quotas_usageday.lost_ms + excluded.lost_ms,
        jobs = quotas_usageday.jobs + excluded.jobs
"""  # noqa: S608


def roll_up() -> int:
    """Add lines that the sums do not hold yet; answers how many at most, 0 when there is none left.

    The mark moves in the same transaction, and lines come in the order of their ids: who writes them holds the mark.
    """
    with transaction.atomic():
        mark = LedgerMark.objects.select_for_update().filter(pk=1).first()
        last = Charge.objects.aggregate(last=Max("pk"))["last"] or 0
        if mark is None or last <= mark.rolled_to:
            return 0
        through = min(last, mark.rolled_to + LINES)
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [mark.rolled_to, through])
        added, mark.rolled_to = through - mark.rolled_to, through
        mark.save(update_fields=["rolled_to"])
        return added
