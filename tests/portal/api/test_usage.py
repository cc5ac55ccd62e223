"""`usage` over the REST interface."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest

from portal.accounts.models import User
from portal.usage_csv import to_csv
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.core.types import JobSpec
from scheduler.selectors.usage import By, Used
from tests.portal.api.conftest import Api, problem
from tests.scheduler.builders import charge_spans, row_of_job


@pytest.fixture
def week(ada: Api, eve: Api) -> None:
    """Yesterday vision held 8 GPUs and speech 4, for two hours each."""
    now = clock.to_datetime(clock.now_ms())
    for number, (team, gpus, who) in enumerate([("vision", 8, "ada"), ("speech", 4, "eve")], start=1):
        spec = JobSpec(f"{number:026}", team, gpus, "H100", 2, 1, clock.to_ms(now))
        user = User.objects.get(username=who)
        job = row_of_job(spec, QuotaNode.objects.get(name=team), user, state="SUCCEEDED", attempt=1)
        charge_spans(job, gpus, "H100", [(now - timedelta(hours=26), now - timedelta(hours=24))])


def test_members_see_their_teams_and_on_call_all(ada: Api, pager: Api, week: None) -> None:
    found = ada.get("usage", {"group_by": "team"}).json()
    assert [(item["team"], item["gpu_hours"]) for item in found["items"]] == [("vision", 16)]
    found = pager.get("usage", {"group_by": "team"}).json()
    assert [(item["team"], item["gpu_hours"]) for item in found["items"]] == [("speech", 8), ("vision", 16)]
    assert (found["gpu_hours"], found["group_by"]) == (24, ["team"])


def test_csv_by_accept(pager: Api, week: None) -> None:
    answer = pager.get("usage", {"group_by": "team,user"}, Accept="text/csv")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.content.decode())))
    assert rows == [
        ["team", "user", "gpu_hours", "floor_hours", "burst_hours", "lost_hours", "jobs", "cost"],
        ["speech", "eve@example.com", "8.0000", "0.0000", "8.0000", "0.0000", "1", ""],
        ["vision", "ada@example.com", "16.0000", "0.0000", "16.0000", "0.0000", "1", ""],
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"group_by": "colour"},
        {"group_by": "day,week"},
        {"from": "2026-04-19", "to": "2026-04-18"},
        {"from": "2020-01-01", "to": "2026-01-01"},
        {"from": "yesterday"},
        {"colour": "red"},
    ],
)
def test_what_makes_no_sense_is_refused(ada: Api, query: dict[str, str]) -> None:
    problem(ada.get("usage", query), 400)


def test_errors_are_problems_for_those_who_want_csv_too(ada: Api) -> None:
    problem(ada.get("usage", {"group_by": "colour"}, Accept="text/csv"), 400)


def test_no_cell_is_a_formula() -> None:
    text = to_csv([Used(None, "=cmd()@example.com", None, None, None, 1.5, 1, 0.5, 0, 1)], [By.USER])
    assert text.splitlines()[1] == "'=cmd()@example.com,1.5000,1.0000,0.5000,0.0000,1,"


def test_nodes_overlap_and_the_whole_does_not(pager: Api, week: None) -> None:
    found = pager.get("usage", {"group_by": "node"}).json()
    assert found["gpu_hours"] == 24
    assert {item["node"]: item["burst_hours"] for item in found["items"]}["vision"] == 16
