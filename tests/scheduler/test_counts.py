"""The counts of jobs: kept by triggers, whatever changes the rows."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import counts, selectors
from scheduler.core.types import JobSpec
from scheduler.models import Job, JobCount
from scheduler.selectors import Counts, JobFilter
from tests.portal.people import make_tree, make_user
from tests.scheduler.builders import row_of_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    make_tree()
    return make_user("ada", "vision")


def make(user: User, number: int, team: str = "vision", state: str = "PENDING", **fields: object) -> Job:
    gpu_type, name = str(fields.pop("gpu_type", "H100")), str(fields.pop("name", f"train-{number}"))
    spec = JobSpec(f"J{number}", team, 8, gpu_type, 2, 3_600_000, 0, name=name)
    return row_of_job(spec, QuotaNode.objects.get(name=team), user, state=state, **fields)


def by_hand() -> dict[str, int]:
    return dict(Counter(Job.objects.values_list("state", flat=True)))


def everything() -> dict[str, int]:
    return selectors.state_counts(JobFilter(), None)


def test_every_way_to_change_rows_is_counted(ada: User) -> None:
    for number in range(6):
        make(ada, number)
    assert everything() == {"PENDING": 6}
    Job.objects.filter(pk__in=["J0", "J1"]).update(state="RUNNING")
    Job.objects.filter(pk="J2").delete()
    row = Job.objects.get(pk="J3")
    row.state = "FAILED"
    Job.objects.bulk_update([row], ["state"])
    row.name = "another"
    row.save()
    assert everything() == by_hand() == {"PENDING": 2, "RUNNING": 2, "FAILED": 1}


def test_folding_changes_no_count_and_leaves_a_row_a_kind(ada: User) -> None:
    for number in range(5):
        make(ada, number)
    Job.objects.all().update(state="RUNNING")
    Job.objects.filter(pk="J0").update(state="SUCCEEDED")
    counts.fold()
    assert everything() == {"RUNNING": 4, "SUCCEEDED": 1}
    assert JobCount.objects.count() == 2
    assert counts.fold() == 0


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(JobFilter(owner="ADA@example.com"), {"PENDING": 2, "RUNNING": 1}, id="an owner in other letters"),
        pytest.param(JobFilter(teams=("speech",)), {"RUNNING": 1}, id="a team"),
        pytest.param(JobFilter(gpu_type="A100"), {"PENDING": 1}, id="a type"),
        pytest.param(JobFilter(states=("RUNNING",)), {"RUNNING": 1}, id="a state"),
        pytest.param(JobFilter(priorities=(0,)), {}, id="a priority that no job has"),
        pytest.param(JobFilter(text="TRAIN-1"), {"PENDING": 1}, id="a part of the name"),
        pytest.param(JobFilter(text="j2"), {"RUNNING": 1}, id="a part of the id"),
    ],
)
def test_counts_follow_the_filters(ada: User, wanted: JobFilter, found: dict[str, int]) -> None:
    make(ada, 0, gpu_type="A100")
    make(ada, 1)
    make(ada, 2, team="speech", state="RUNNING")
    assert selectors.state_counts(wanted, None) == found


def test_nobody_counts_what_they_may_not_see(ada: User) -> None:
    make(ada, 0)
    assert selectors.state_counts(JobFilter(), [QuotaNode.objects.get(name="speech").pk]) == {}
    assert selectors.state_counts(JobFilter(text="train"), [QuotaNode.objects.get(name="speech").pk]) == {}


def test_a_word_that_is_everywhere_is_counted_to_the_bound(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lives is counted to the end, of what is over a bounded number, whatever their states."""
    monkeypatch.setattr("scheduler.selectors.job_counts.MOST", 3)
    for number in range(5):
        make(ada, number)
    for number in range(5, 8):
        make(ada, number, state="FAILED")
    assert selectors.counts(JobFilter(text="train"), None) == Counts({"PENDING": 5, "FAILED": 3})
    make(ada, 8, state="FAILED")
    found = selectors.counts(JobFilter(text="train"), None)
    assert found == Counts({"PENDING": 5, "FAILED": 4}, frozenset({"SUCCEEDED", "FAILED", "CANCELLED"}))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("run", ["big-run.v2", "trunk"], id="three letters, anywhere"),
        pytest.param("RUN.V", ["big-run.v2"], id="three letters and a sign"),
        pytest.param("ru", ["big-run.v2"], id="two letters, where a word begins"),
        pytest.param("v2", ["big-run.v2"], id="a word after a dot"),
        pytest.param("t", ["trunk"], id="one letter, where the name begins"),
        pytest.param("n", [], id="one letter, inside a word"),
        pytest.param("-", [], id="no letter"),
        pytest.param("_%", [], id="what stands for anything, in the language of the database"),
        pytest.param("J1", ["trunk"], id="the beginning of an id"),
    ],
)
def test_what_a_text_finds(ada: User, text: str, found: list[str]) -> None:
    for number, name in enumerate(("big-run.v2", "trunk")):
        make(ada, number, name=name)
    seen = selectors.jobs(JobFilter(text=text), None)
    assert sorted(seen.values_list("name", flat=True)) == found
    assert sum(selectors.state_counts(JobFilter(text=text), None).values()) == len(found)


def test_a_count_is_one_query_that_does_not_look_at_the_jobs(ada: User) -> None:
    make(ada, 0)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        selectors.counts(JobFilter(owner="ada@example.com"), None)
    (query,) = asked.captured_queries
    assert '"scheduler_job"' not in query["sql"]
