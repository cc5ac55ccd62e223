"""A job's attempts out of its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portal.views.timeline import Whom, attempts, beneficiaries, failure, lost

START = datetime(2026, 4, 19, 12, tzinfo=UTC)


@dataclass
class Recorded:
    kind: str
    second: int
    attempt: int = 1
    node: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        return START + timedelta(seconds=self.second)


BIND = {"gpus": {"h1": [0, 1], "h2": [0]}}
STOPPED_ONCE = [
    Recorded("bind", 10, detail=BIND),
    Recorded("start", 15),
    Recorded("stop", 40, detail={"cause": "preempt", "for": "01J"}),
    Recorded("release", 50, detail={"cause": "preempt"}),
    Recorded("bind", 70, 2, detail={"gpus": {"h3": [4]}}),
]


def seconds(spans: list[tuple[str, datetime, datetime]]) -> list[tuple[str, int, int]]:
    return [(name, int((a - START).total_seconds()), int((b - START).total_seconds())) for name, a, b in spans]


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        pytest.param({}, "", id="as it was told before hosts said why"),
        pytest.param({"unready": {"h2": ""}}, " (h2)", id="a host that does not say why"),
        pytest.param({"unready": {"h1": "no image", "h2": ""}}, " (h1: no image; h2)", id="one that does"),
    ],
)
def test_a_start_that_took_too_long_names_the_hosts_that_were_not_ready(detail: dict[str, Any], words: str) -> None:
    stop = Recorded("stop", 40, detail={"cause": "start_timeout", "for": None, **detail})
    (attempt,) = attempts(START, [Recorded("bind", 10, detail=BIND), stop])
    assert attempt.lines[-1].words == f"Stopped: not every rank was ready in time{words}"


def test_a_job_that_waits_has_one_attempt_without_a_number() -> None:
    (waiting,) = attempts(START, [Recorded("reason", 1, 0)])
    assert waiting.number == 0
    assert waiting.lines == []
    assert seconds(waiting.spans(START + timedelta(seconds=9))) == [("pending", 0, 9)]


def test_each_attempt_accounts_for_its_whole_time() -> None:
    first, second = attempts(START, STOPPED_ONCE)
    now = START + timedelta(seconds=80)
    assert seconds(first.spans(now)) == [
        ("pending", 0, 10),
        ("starting", 10, 15),
        ("running", 15, 40),
        ("stopping", 40, 50),
    ]
    assert seconds(second.spans(now)) == [("pending", 50, 70), ("starting", 70, 80)]
    assert (first.gpus, first.hosts) == (3, 2)


def test_an_end_opens_no_further_wait() -> None:
    ended = [*STOPPED_ONCE[:2], Recorded("exit", 60, detail={"rank": 2, "code": 1}), Recorded("release", 61)]
    (only,) = attempts(START, [*ended, Recorded("end", 61, detail={"state": "FAILED"})])
    assert [line.words for line in only.lines][-3:] == [
        "Rank 2 exited with code 1",
        "Gave its GPUs back",
        "Ended: failed",
    ]
    assert only.freed == START + timedelta(seconds=61)


def test_what_was_not_asked_is_not_called_so() -> None:
    first, _ = attempts(
        START, [STOPPED_ONCE[0], Recorded("stop", 20, detail={"cause": "node_failure"}), STOPPED_ONCE[3]]
    )
    assert "Stopped: a host was lost" in [line.words for line in first.lines]


def test_a_stop_names_its_cause_and_for_whom() -> None:
    first, _ = attempts(START, STOPPED_ONCE)
    assert "Asked to stop: preempted by a job of higher priority" in [line.words for line in first.lines]


def test_whom_a_stop_was_for_is_told_as_far_as_the_reader_may_know() -> None:
    assert beneficiaries(STOPPED_ONCE) == {"01J"}
    hidden = Whom(None, None, "speech", 0)
    first, _ = attempts(START, STOPPED_ONCE, {"01J": hidden})
    assert [line.whom for line in first.lines if line.tone == "stopping"] == [hidden]


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        pytest.param({"lost_ms": 720_000}, "Gave its GPUs back. Lost 12 min 00 s × 3 GPUs = 0.6 GPU-hours", id="lost"),
        pytest.param({"lost_ms": 0}, "Gave its GPUs back. Nothing was lost: its work was saved", id="saved"),
        pytest.param({}, "Gave its GPUs back", id="recorded before losses were"),
    ],
)
def test_a_release_tells_what_the_stop_cost(detail: dict[str, Any], said: str) -> None:
    whom = Whom("01J", "big", "vision", 0)
    first, _ = attempts(START, [*STOPPED_ONCE[:3], Recorded("release", 50, detail=detail)], {"01J": whom})
    assert first.lines[-1].words == said
    assert (first.lines[-1].whom is whom) == ("Lost" in said)
    assert lost([first]).gpu_ms == 3 * detail.get("lost_ms", 0)


def test_the_end_of_a_job_that_held_gpus_opens_no_wait() -> None:
    ended = [*STOPPED_ONCE[:2], Recorded("end", 61, detail={"state": "SUCCEEDED"}), Recorded("release", 61)]
    (only,) = attempts(START, ended)
    assert only.freed == START + timedelta(seconds=61)


def test_an_attempt_says_which_step_it_resumes_from_and_a_checkpoint_which_it_holds() -> None:
    place = "s3://models/run/01J/a00001-s000000000120/manifest.json"
    events = [
        Recorded("bind", 10, detail=BIND),
        Recorded("checkpoint", 30, detail={"work_ms": 120_000, "manifest": place, "step": 120}),
        Recorded("release", 50),
        Recorded("bind", 70, 2, detail=BIND | {"resume_from": place}),
        Recorded("bind", 80, 3, detail=BIND | {"resume_from": "s3://elsewhere"}),
    ]
    first, second = attempts(START, events)
    assert "Checkpoint complete at step 120, 2 min of work saved" in [line.words for line in first.lines]
    assert [line.words for line in second.lines] == [
        "Got 3 GPUs on 2 hosts, resumes from step 120",
        "Got 3 GPUs on 2 hosts",
    ]


@pytest.mark.parametrize(
    ("cause", "words"), [("time_limit", "time limit reached"), ("rank_failure", "a rank failed"), ("", "")]
)
def test_a_failed_job_says_what_ended_its_last_attempt(cause: str, words: str) -> None:
    stopped = [Recorded("stop", 85, 2, detail={"cause": cause})] if cause else []
    events = [*STOPPED_ONCE, Recorded("start", 75, 2), *stopped, Recorded("release", 90, 2), Recorded("end", 90, 2)]
    assert failure(attempts(START, events)) == words
