"""What the benchmark says of floors and shares, on logs short enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.fairness import Fairness, filled
from scheduler.sim.metrics import DAY_S

QUOTA = {"a": {"share": 1, "children": {"own": {"floor": {"H100": 8}}}}, "b": {"share": 3, "children": {"other": {}}}}


def measured(*lines: dict[str, Any], until_s: float) -> Fairness:
    found = Fairness()
    for line in ({"t": 0, "kind": "fleet", "quota": QUOTA}, *lines):
        found.take(line)
    found.close(until_s)
    return found


def submit(at_s: float, job: str, team: str, gpus: int) -> dict[str, Any]:
    line = {"t": at_s, "kind": "submit", "job": job, "team": team, "gpus": gpus, "gpu_type": "H100"}
    return {**line, "state": "PENDING"}


def of_job(at_s: float, kind: str, job: str) -> dict[str, Any]:
    return {"t": at_s, "kind": kind, "job": job}


def test_a_floor_is_unmet_while_a_job_that_fits_in_it_waits() -> None:
    found = measured(submit(10, "j", "own", 8), of_job(70, "bind", "j"), until_s=100)
    assert found.unmet == [(60, ("own", "H100"))]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([submit(10, "j", "own", 16)], id="larger than the floor"),
        pytest.param([submit(10, "j", "other", 8)], id="of a team without one"),
        pytest.param([submit(10, "j", "own", 8), of_job(10, "bind", "j")], id="started at once"),
        pytest.param(
            [submit(10, "j", "own", 8), of_job(10, "bind", "j"), of_job(50, "end", "j"), of_job(50, "release", "j")],
            id="over, and then released",
        ),
        pytest.param(
            [submit(10, "held", "own", 4), of_job(10, "bind", "held"), submit(20, "j", "own", 8)],
            id="the floor is held in part",
        ),
    ],
)
def test_no_floor_is_unmet(lines: list[dict[str, Any]]) -> None:
    assert measured(*lines, until_s=100).unmet == []


def test_one_that_waits_until_the_end_counts_until_then() -> None:
    assert measured(submit(10, "j", "own", 8), until_s=100).unmet == [(90, ("own", "H100"))]


def test_a_stopped_job_waits_again() -> None:
    found = measured(
        submit(0, "j", "own", 8),
        of_job(0, "bind", "j"),
        of_job(40, "release", "j"),
        of_job(90, "bind", "j"),
        until_s=99,
    )
    assert found.unmet == [(50, ("own", "H100"))]


def test_how_far_one_is_from_its_share_while_somebody_waits() -> None:
    """Eight are held by a, eight by b; b wants all it can get: a quarter of sixteen is a's."""
    found = measured(
        submit(0, "a1", "own", 8),
        of_job(0, "bind", "a1"),
        submit(0, "b1", "other", 8),
        of_job(0, "bind", "b1"),
        submit(100, "b2", "other", 8),
        until_s=DAY_S + 100,
    )
    first, second = found.drifts()
    assert first == ("H100", 1, DAY_S - 100, {"a": 0.25, "b": -0.25})
    assert second == ("H100", 2, 100, {"a": 0.25, "b": -0.25})


def test_where_nobody_waits_there_is_no_drift() -> None:
    assert list(measured(submit(0, "a1", "own", 8), of_job(0, "bind", "a1"), until_s=100).drifts()) == []


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        pytest.param({"a": 100, "b": 100}, {"a": 4, "b": 12}, id="by shares"),
        pytest.param({"a": 1, "b": 100}, {"a": 1, "b": 15}, id="what one does not want is the other's"),
        pytest.param({"a": 100, "b": 0}, {"a": 16, "b": 0}, id="all to the only one who wants"),
        pytest.param({"a": 2, "b": 3}, {"a": 2, "b": 3}, id="no more than is wanted"),
    ],
)
def test_filling_up_by_shares(wanted: dict[str, int], given: dict[str, float]) -> None:
    assert filled(16, wanted, {"a": 0.25, "b": 0.75}) == pytest.approx(given)
