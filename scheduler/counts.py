"""Keeps the table behind the counts of jobs small. What it sums to is the triggers' work (migration 0002)."""

from __future__ import annotations

from django.db import connection

_FOLD = """
WITH several AS (
    SELECT team_id, owner, priority, gpu_type, state FROM scheduler_jobcount GROUP BY 1, 2, 3, 4, 5 HAVING count(*) > 1
), gone AS (
    DELETE FROM scheduler_jobcount AS c USING several AS s
    WHERE (c.team_id, c.owner, c.priority, c.gpu_type, c.state)
        = (s.team_id, s.owner, s.priority, s.gpu_type, s.state)
    RETURNING c.*
), folded AS (
    INSERT INTO scheduler_jobcount (team_id, owner, priority, gpu_type, state, jobs)
    SELECT team_id, owner, priority, gpu_type, state, sum(jobs) FROM gone GROUP BY 1, 2, 3, 4, 5 HAVING sum(jobs) <> 0
)
SELECT count(*) FROM gone
"""


def fold() -> int:
    """Make one row of all that are of one kind; answers how many there were. Two at once fold different rows."""
    with connection.cursor() as cursor:
        cursor.execute(_FOLD)
        (folded,) = cursor.fetchone()
        return int(folded)
