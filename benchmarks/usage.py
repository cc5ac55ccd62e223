"""GPU-hours of the last quarter over the ledger of 2,000,000 jobs: time in the server, as pages and programs ask.

    python -m benchmarks.usage [--jobs N] [--json FILE]     # a part of `make bench-e2e`

Starts a PostgreSQL and a Redis of its own and fills the ledger in the server: two lines a job (barrier and work) of 200
people in 20 teams on three GPU types, all within the quarter; the last hundredth of it is in no sum by day yet. Usage
reads the ledger and no job, so there are no rows of jobs. Exit status 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.table import Figure, show

os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"

JOBS, PEOPLE, TEAMS, DAYS = 2_000_000, 200, 20, 92
MOST_MS = 200.0
ROUNDS = 7

_LINES = """
    INSERT INTO quotas_charge (entry, position, kind, job, attempt, team_id, "user", saves, path, gpu_type, day,
                               starts, ends, floor, burst, lost, jobs)
    SELECT job || line.name, 0, 'held', job, 1, team.id, person, true, ARRAY['org', team.name], kind,
           (starts AT TIME ZONE 'UTC')::date, starts + line.after, starts + line.until,
           line.works * floor, line.works * (gpus - floor), (1 - line.works) * gpus, 1 - line.works
    FROM (
        SELECT lpad(n::text, 26, '0') AS job, 'person' || n %% %(people)s || '@example.com' AS person,
               n %% %(people)s %% %(teams)s AS place, (ARRAY['H100', 'H100', 'A100', 'L40S'])[1 + n / 7 %% 4] AS kind,
               (ARRAY[1, 1, 8, 64])[1 + n / 11 %% 4] AS gpus, n / 3 %% 2 AS floor,
               %(since)s + n::float / %(jobs)s * %(length)s * interval '1 second' AS starts
        FROM generate_series(%(first)s, %(last)s) AS n
    ) job
    JOIN (SELECT id, name, row_number() OVER (ORDER BY id) - 2 AS place FROM quotas_quotanode) team USING (place)
    CROSS JOIN (VALUES ('b', interval '0', interval '30 seconds', 0),
                       ('w', interval '30 seconds', interval '10 minutes', 1)) AS line (name, after, until, works)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    asked = parser.parse_args()

    from tests import stores

    try:
        figures = _measure(asked.jobs)
    finally:
        stores.stop_all()
    show("usage", figures, asked.json)
    return 0 if all(figure.holds for figure in figures) else 1


def _measure(jobs: int) -> list[Figure]:
    from tests import stores

    stores.url("POSTGRES"), stores.url("REDIS")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    until = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = until - timedelta(days=DAYS)
    figures = [_timed("filling the ledger", "s", lambda: _fill(jobs, since))]
    return [*figures, *_ask(since, until)]


def _fill(jobs: int, since: datetime) -> None:
    from django.db import connection

    from portal.accounts.models import User
    from quotas.ledger import rollup, services
    from quotas.models import QuotaNode

    root = QuotaNode.objects.create(name="org")
    for number in range(TEAMS):
        QuotaNode.objects.create(name=f"team-{number}", parent=root)
    User.objects.create_user("otto", "otto@example.com", is_oncall=True)
    services.begin()
    length = (DAYS * 86_400) - 3_600
    values: dict[str, Any] = {"people": PEOPLE, "teams": TEAMS, "jobs": jobs, "since": since, "length": length}
    unsummed = jobs - jobs // 100
    for first, last in ((0, unsummed - 1), (unsummed, jobs - 1)):
        with connection.cursor() as cursor:
            cursor.execute(_LINES, {**values, "first": first, "last": last})
        while first == 0 and rollup.roll_up():
            pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE quotas_charge")
        cursor.execute("VACUUM ANALYZE quotas_usageday")


def _ask(since: datetime, until: datetime) -> list[Figure]:
    from django.test import Client

    from portal.accounts.models import User
    from quotas.models import Charge, UsageDay
    from scheduler.selectors.usage import By, used

    def sums(*by: By) -> Callable[[], None]:
        def ask() -> None:
            assert used(since, until, by, now=until, team_ids=None, limit=20_000)

        return ask

    client = Client()
    client.force_login(User.objects.get(username="otto"))

    def page() -> None:
        span = f"from={since:%Y-%m-%d}&to={until - timedelta(days=1):%Y-%m-%d}"
        assert client.get(f"/usage/?by=team&step=week&{span}").status_code == 200

    return [
        Figure("lines", Charge.objects.count(), ""),
        Figure("sums by day", UsageDay.objects.count(), ""),
        _middle("by team", sums(By.TEAM), MOST_MS),
        _middle("by team and week", sums(By.TEAM, By.WEEK), MOST_MS),
        _middle("by node", sums(By.NODE)),
        _middle("by person and week", sums(By.USER, By.WEEK)),
        _middle("the page, by team and week", page),
    ]


def _middle(name: str, ask: Callable[[], None], most: float | None = None) -> Figure:
    """The middle of some rounds after a first one."""
    ask()
    times = sorted(_timed(name, "ms", ask).value for _ in range(ROUNDS))
    return Figure(name, times[ROUNDS // 2], "ms", most)


def _timed(name: str, unit: str, work: Callable[[], None]) -> Figure:
    began_s = time.perf_counter()
    work()
    spent_s = time.perf_counter() - began_s
    return Figure(name, spent_s * (1000 if unit == "ms" else 1), unit)


if __name__ == "__main__":
    sys.exit(main())
