"""The examples are what they say: a newcomer's first submission must be accepted as it stands."""

from __future__ import annotations

import json
from pathlib import Path

from portal.demo.tree import EXAMPLE_TEAM
from scheduler.requests import JobRequest, TeamRights, parse

JOB = Path(__file__).resolve().parents[2] / "examples" / "job.json"


def test_the_example_job_is_accepted_as_it_stands() -> None:
    parsed = parse(json.loads(JOB.read_text()), {EXAMPLE_TEAM: TeamRights()}, {"H100": 128}, owner="ada@example.com")
    assert isinstance(parsed, JobRequest), parsed
    assert parsed.owner == "ada@example.com"
