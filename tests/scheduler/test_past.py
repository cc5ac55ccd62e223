"""The map of an earlier moment, from events and frames."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodes.models import Node
from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import past, replay
from scheduler.core.types import JobSpec
from scheduler.models import Act, Job, JobEvent, MapFrame
from scheduler.selectors.past import map_at
from tests.scheduler.builders import row_of_job

pytestmark = pytest.mark.django_db
START = datetime(2026, 5, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


class History:
    """Writes events as the recorder would: each of its own commit."""

    def __init__(self) -> None:
        self.revision = 0
        self.user = User.objects.create_user("ada", "ada@example.com")
        self.team = QuotaNode.objects.create(name="vision")
        for name in ("h1", "h2"):
            fields = {"az": "az1", "rack": "r1", "gpu_type": "H100", "gpus": 8, "cpus": 1, "memory_gb": 1}
            Node.objects.create(name=name, scratch_gb=1, token_hash=name, **fields)
        Node.objects.update(registered_at=START - timedelta(days=1))

    def job(self, name: str, gpus: int = 8) -> Job:
        return row_of_job(JobSpec(name, "vision", gpus, "H100", 2, 1, 0), self.team, self.user)

    def event(self, minutes: float, kind: str, job: str | None = None, node: str = "", **detail: Any) -> None:
        self.revision += 1
        fields = {"kind": kind, "job_id": job, "node": node, "detail": detail, "at": at(minutes)}
        JobEvent.objects.create(entry=f"{self.revision:08}", position=0, revision=self.revision, **fields)

    def bind(self, minutes: float, job: str, **gpus: list[int]) -> None:
        self.event(minutes, "bind", job, phase="STARTING", gpus=gpus)


@pytest.fixture
def history() -> History:
    return History()


def row(found: dict[str, Any], name: str) -> list[Any]:
    only: list[Any]
    (only,) = [row for row in found["nodes"] if row[0] == name]
    return only


def test_a_gang_is_shown_while_it_held_its_gpus_and_in_the_phase_of_then(history: History) -> None:
    history.job("a")
    history.bind(1, "a", h1=[0, 1])
    history.event(2, "start", "a", phase="RUNNING")
    history.event(5, "release", "a", phase="PENDING")
    phases = [[job[2] for job in map_at(at(minutes))["jobs"]] for minutes in (0.5, 1.5, 3, 5)]
    assert phases == [[], ["STARTING"], ["RUNNING"], []]
    assert row(map_at(at(3)), "h1")[5] == [0, 0, -1, -1, -1, -1, -1, -1]
    assert map_at(at(3))["jobs"][0][1] == "vision"


def test_hosts_and_gpus_are_as_they_were(history: History) -> None:
    history.event(1, "host", node="h1", state="DOWN", why="no sign of life")
    history.event(1, "gpu", node="h2", gpu=3, state="FAULTY")
    history.event(4, "host", node="h1", state="READY", why="")
    history.event(4, "gpu", node="h2", gpu=3, state="OK")
    during, after = map_at(at(2)), map_at(at(4))
    assert (row(during, "h1")[4], row(during, "h2")[5][3]) == ("DOWN", -2)
    assert (row(after, "h1")[4], row(after, "h2")[5][3]) == ("READY", -1)


def test_what_on_call_wished_for_is_shown_too(history: History) -> None:
    for minutes, act in ((1, "cordon"), (2, "drain"), (3, "cordon"), (4, "uncordon")):
        Act.objects.create(at=at(minutes), by=history.user, act=act, target="h1", nodes=["h1"])
    states = [row(map_at(at(minutes)), "h1")[4] for minutes in (0.5, 1.5, 2.5, 3.5, 4.5)]
    assert states == ["READY", "CORDONED", "DRAINING", "DRAINING", "READY"]


def test_hosts_come_and_go(history: History) -> None:
    Node.objects.filter(pk="h1").update(registered_at=at(2), removed_at=at(4))
    names = [[row[0] for row in map_at(at(minutes))["nodes"]] for minutes in (1, 3, 5)]
    assert names == [["h2"], ["h1", "h2"], ["h2"]]


def test_a_moment_after_frames_equals_all_events_told_again(history: History) -> None:
    """Random lives of jobs over three hours: with frames and without, every moment looks the same."""
    chance = random.Random(7)
    held: dict[str, float] = {}
    for step in range(200):
        minutes = step * 0.9
        for name in [name for name, until in held.items() if until <= minutes]:
            history.event(minutes, "release", name, phase="PENDING")
            del held[name]
        name = f"j{step}"
        history.job(name)
        history.bind(minutes, name, h1=[chance.randrange(8)])
        held[name] = minutes + chance.uniform(1, 40)
        if step == 90:
            assert past.keep_frames(at(minutes)) > 5
    assert past.keep_frames(at(200)) > 5
    moments = [at(chance.uniform(0, 200)) for _ in range(12)]
    told = [past.state_at(moment) for moment in moments]
    MapFrame.objects.all().delete()
    assert [past.state_at(moment) for moment in moments] == told
    past.keep_frames(at(200))
    assert past.keep_frames(at(200)) == 0


def test_an_event_that_comes_late_is_in_the_next_frame(history: History) -> None:
    history.job("a")
    history.bind(0, "a", h1=[0])
    history.event(6, "start", "a", phase="RUNNING")
    past.keep_frames(at(6.5))
    frame = MapFrame.objects.get()
    history.job("b")
    history.bind(5.9, "b", h1=[1])  # recorded after the frame, though it happened before it
    assert "b" not in frame.state["jobs"]
    assert set(past.state_at(at(7))["jobs"]) == {"a", "b"}


def test_old_frames_go(history: History) -> None:
    MapFrame.objects.create(revision=0, at=START - timedelta(days=20), state=replay.empty())
    past.keep_frames(START)
    assert not MapFrame.objects.exists()


def test_the_number_of_queries_stays(history: History, django_assert_num_queries: Any) -> None:
    for number in range(5):
        history.job(f"j{number}")
        history.bind(number, f"j{number}", h1=[number])
    with django_assert_num_queries(6):
        map_at(at(10))
