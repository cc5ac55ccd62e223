"""The page of jobs over 30,000 live and 1,000,000 past jobs: time in the server and queries, filter by filter.

    python -m benchmarks.jobs_page [--json FILE]     # a part of `make bench-e2e`

Starts a PostgreSQL and a Redis of its own, fills them by COPY with jobs of 200 people in six teams, and asks for the
page, and for the list of the REST interface, as Django's test client does: everything but the network is in the time.
It is about the database, so the live state is left empty. A database that GANGWAY_TEST_POSTGRES_URL names and that has
jobs already is measured as it is. Exit status 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.table import Figure, show

os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"

LIVE, PAST, PEOPLE = 30_000, 1_000_000, 200
MOST_MS, MOST_QUERIES = 300.0, 8
ROUNDS = 7
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TYPES = {False: ("H100", "A100", "L40S"), True: ("A100", "V100", "L40S")}
"""Now, and in the first third of the time."""
COLUMNS = (
    "id, name, team_id, owner, submitted_by_id, priority, gpus, gpu_type, hint, max_runtime_ms, spec, core_spec, "
    "submitted_at, body_hash, intent_version, cancel, hold, state, reason, attempt, allocation, stop_cause, "
    "started_at, ended_at, revision, in_store, array_id"
)
PAGES = {
    "a researcher's own": ("ada", ""),
    "a researcher's own, running": ("ada", "?state=RUNNING"),
    "a researcher's own, by a word": ("ada", "?q=needle"),
    "a researcher's teams": ("ada", "?whose=all"),
    "a researcher's teams, by a word": ("ada", "?whose=all&q=needle"),
    "everything, for on-call": ("otto", ""),
    "what lives": ("otto", "?state=PENDING&state=STARTING&state=RUNNING&state=STOPPING"),
    "what failed": ("otto", "?state=FAILED"),
    "a rare kind": ("otto", "?priority=P0&gpu_type=L40S&state=STOPPING"),
    "a kind that there is not": ("otto", "?gpu_type=B200"),
    "a team": ("otto", "?team=team-5"),
    "a team's urgent jobs": ("otto", "?team=team-5&priority=P0"),
    "a team's urgent failures of one type": ("otto", "?team=team-5&priority=P0&gpu_type=L40S&state=FAILED"),
    "one person's failures": ("otto", "?owner=person17@example.com&state=FAILED"),
    "a type of long ago": ("otto", "?gpu_type=V100"),
    "a word in every name": ("otto", "?q=train"),
    "a word in every name, cancelled": ("otto", "?q=train&state=CANCELLED"),
    "a word in few names": ("otto", "?q=needle"),
    "a word in few names, of a team": ("otto", "?q=needle&team=team-5"),
    "a word of long ago": ("otto", "?q=legacy"),
    "a word of long ago, in few names": ("otto", "?q=fossil"),
    "a word in no name": ("otto", "?q=nosuchword"),
    "the beginning of an id": ("otto", "?q=01ZZ"),
    "two letters of no name": ("otto", "?q=zz"),
    "two letters of every name": ("otto", "?q=tr"),
    "a letter": ("otto", "?q=n"),
    "signs": ("otto", "?q=--"),
    "half a million jobs ago": ("otto", "?after={old}"),
    "a team, half a million jobs ago": ("otto", "?team=team-5&after={old}"),
    "a word, half a million jobs ago": ("otto", "?q=needle&after={old}"),
    "the last page of all": ("otto", "?after={oldest}"),
}
WITHOUT_BOUND = ("a word of long ago",)
"""A third of all names, none in the last two thirds of the time: neither index helps, so it only informs."""
LISTS = {
    "REST: everything": ("otto", ""),
    "REST: a team's urgent jobs": ("otto", "?team=team-5&priority=P0"),
    "REST: a word in few names": ("otto", "?q=needle"),
    "REST: a day half a year ago": ("otto", "?since=2026-05-01T00:00:00Z&until=2026-05-02T00:00:00Z&state=FAILED"),
    "REST: 200 at once": ("otto", "?limit=200"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs_page", description=__doc__)
    parser.add_argument("--live", type=int, default=LIVE)
    parser.add_argument("--past", type=int, default=PAST)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--explain", action="store_true", help="print the plans of each page's slow queries")
    asked = parser.parse_args()

    from tests import stores

    try:
        figures = _measure(asked.live, asked.past, asked.explain)
    finally:
        stores.stop_all()
    show("jobs page", figures, asked.json)
    return 0 if all(figure.holds for figure in figures) else 1


def _measure(live: int, past: int, explain: bool) -> list[Figure]:
    from tests import stores

    stores.url("POSTGRES"), stores.url("REDIS")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from scheduler.models import Job

    began_s = time.monotonic()
    if not Job.objects.exists():
        _fill(live, past)
    figures = [Figure("rows", Job.objects.count(), ""), Figure("filling", time.monotonic() - began_s, "s")]
    ids = {"old": _id(past // 2), "oldest": _id(10)}
    for title, (person, query) in PAGES.items():
        figures += _page(title, person, "/jobs/" + query.format(**ids), explain)
    for title, (person, query) in LISTS.items():
        figures += _page(title, person, "/api/v1/jobs" + query, explain)
    return figures


def _page(title: str, person: str, address: str, explain: bool) -> list[Figure]:
    """The middle of some rounds after a first one, and how many queries each asks."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from portal.accounts.models import User

    client = Client()
    client.force_login(User.objects.get(username=person))
    times = []
    for turn in range(ROUNDS + 1):
        with CaptureQueriesContext(connection) as asked:
            began_s = time.perf_counter()
            answer = client.get(address)
            spent_ms = 1000 * (time.perf_counter() - began_s)
        assert answer.status_code == 200, answer.content
        if turn:
            times.append(spent_ms)
    if explain:
        _explain(title, asked.captured_queries)
    queries = [one for one in asked.captured_queries if one["sql"] not in ("BEGIN", "COMMIT")]
    return [
        Figure(title, sorted(times)[ROUNDS // 2], "ms", None if title in WITHOUT_BOUND else MOST_MS),
        Figure(f"{title}: queries", len(queries), "", MOST_QUERIES),
    ]


def _explain(title: str, queries: list[dict[str, str]]) -> None:
    from django.db import connection

    for one in queries:
        if float(one["time"]) > 0.02:
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + one["sql"])
                plan = "\n".join(row[0] for row in cursor.fetchall())
            print(f"--- {title}: {one['time']} s\n{one['sql'][:400]}\n{plan}\n")


# --- the rows ---------------------------------------------------------------------------------------------------


def _fill(live: int, past: int) -> None:
    from django.db import connection

    from portal.accounts.models import Membership, User
    from quotas.models import QuotaNode

    teams = [QuotaNode.objects.create(name=f"team-{n}") for n in range(6)]
    names = ["ada", "otto", *(f"person{n}" for n in range(PEOPLE - 2))]
    people = [User(username=name, email=f"{name}@example.com", is_oncall=name == "otto") for name in names]
    User.objects.bulk_create(people)
    Membership.objects.bulk_create([Membership(user=one, team=teams[n % 6]) for n, one in enumerate(people)])
    with connection.cursor() as cursor:
        with _without_indexes(cursor), cursor.copy(f"COPY scheduler_job ({COLUMNS}) FROM STDIN") as copy:
            for row in _rows(live, past, [team.pk for team in teams], [(one.pk, one.email) for one in people]):
                copy.write_row(row)
        cursor.execute("VACUUM ANALYZE scheduler_job")
        cursor.execute("VACUUM ANALYZE scheduler_jobcount")


@contextmanager
def _without_indexes(cursor: Any) -> Iterator[None]:
    """Rows first and indexes afterwards is several times as fast; those behind constraints stay."""
    cursor.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'scheduler_job' "
        "AND indexname NOT IN (SELECT conname FROM pg_constraint)"
    )
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f'DROP INDEX "{name}"')
    yield
    for _, definition in indexes:
        cursor.execute(definition)


def _rows(live: int, past: int, teams: list[int], people: list[tuple[int, str]]) -> Iterator[tuple[Any, ...]]:
    """Jobs over the past year, the live ones last. Half of all are of one team, as the big ones are."""
    random = Random(1)
    last = datetime(2026, 11, 1, tzinfo=UTC)
    spec = json.dumps(
        {"name": "train", "command": ["python", "train.py"], "env": {f"KEY_{n}": "value" for n in range(8)}}
    )
    ended = ["SUCCEEDED"] * 80 + ["FAILED"] * 12 + ["CANCELLED"] * 8
    alive = ["PENDING"] * 70 + ["RUNNING"] * 28 + ["STARTING", "STOPPING"]
    step = timedelta(days=365) / (live + past)
    for number in range(past + live):
        over = number < past
        at = last - step * (past + live - number)
        number_of_person = min(len(people) - 1, int(random.expovariate(1 / 40)))
        person, owner = people[number_of_person]
        team = teams[0] if random.random() < 0.5 else teams[number_of_person % 6]
        name = f"train-{random.choice(('llm', 'vision', 'needle' if number % 5000 == 0 else 'speech'))}-{number}"
        if number < past // 3:
            name += "-fossil" if number % 100 == 0 else "-legacy"
        state = random.choice(ended if over else alive)
        ran = over or state == "RUNNING"
        yield (
            *(_id(number), name, team, owner, person, random.choices((0, 1, 2, 3), (1, 9, 70, 20))[0]),
            *(random.choice((1, 1, 1, 8, 8, 64)), random.choices(TYPES[number < past // 3], (70, 20, 10))[0]),
            *("prefer_same_rack", 3_600_000, spec, spec, at, "", 1, False, False, state, "", 1 if ran else 0, "[]", ""),
            *(at if ran else None, at + timedelta(hours=1) if over else None, number + 1, not over, ""),
        )


def _id(number: int) -> str:
    """A ULID-like id that sorts by number."""
    digits = ""
    for _ in range(10):
        number, rest = divmod(number, 32)
        digits = ALPHABET[rest] + digits
    return "01" + digits + "Z" * 14


if __name__ == "__main__":
    sys.exit(main())
