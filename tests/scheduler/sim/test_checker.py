"""The checker lets good logs pass and names what is wrong with bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.sim.checker import Checker

Lines = list[dict[str, Any]]


def fleet(**quota: Any) -> dict[str, Any]:
    hosts = [
        {"host": f"n{n}", "az": az, "rack": rack, "gpu_type": kind, "gpus": 2, "spot": spot}
        for n, (az, rack, kind, spot) in enumerate(
            [
                ("az1", "r1", "H100", None),
                ("az1", "r2", "H100", None),
                ("az2", "r1", "H100", "aws"),
                ("az1", "r1", "A100", None),
            ],
            start=1,
        )
    ]
    return {"t": 0, "kind": "fleet", "hosts": hosts, "quota": quota, "settings": {}}


def submit(job: str = "a", gpus: int = 2, **changes: Any) -> dict[str, Any]:
    plain = {
        "t": 0,
        "kind": "submit",
        "job": job,
        "team": "ml",
        "gpus": gpus,
        "gpu_type": "H100",
        "priority": "P2",
        "max_runtime": 3600,
        "hint": "prefer_same_rack",
        "spot_ok": None,
        "state": "PENDING",
        "reason": None,
    }
    return plain | changes


def bind(job: str = "a", gpus: dict[str, list[int]] | None = None, **changes: Any) -> dict[str, Any]:
    plain = {"t": 0, "kind": "bind", "job": job, "attempt": 1, "gpus": gpus or {"n1": [0, 1]}, "fence": 5}
    return plain | changes


def of(kind: str, t: float, job: str = "a", attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {"t": t, "kind": kind, "job": job, "attempt": attempt, **fields}


def stop(t: float, cause: str = "preempt", deadline: float | None = 130, **changes: Any) -> dict[str, Any]:
    return of("stop", t, **({"cause": cause, "for": "b", "deadline": deadline} | changes))


LEADER = {"t": 0, "kind": "leader", "fence": 5}
RELEASE: dict[str, Any] = {"gpus": {"n1": [0, 1]}}
END: dict[str, Any] = {"state": "SUCCEEDED"}
STARTED = [submit(), bind(), of("start", 1)]
SAVED = [*STARTED, stop(10), of("checkpoint", 30, work_s=9)]


def violations(lines: Lines, quota: dict[str, Any] | None = None) -> list[str]:
    checker = Checker()
    found = [wrong for line in [fleet(**(quota or {})), LEADER, *lines] for wrong in checker.take(line)]
    return found + checker.finish()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            [*STARTED, of("exit", 9, rank=0, code=0), of("end", 9, **END), of("release", 9, **RELEASE)],
            id="a job's whole life",
        ),
        pytest.param(
            [*SAVED, of("release", 31, **RELEASE), bind(attempt=2, t=40)],
            id="stopped after its checkpoint and bound again",
        ),
        pytest.param([submit(), bind(), of("start", 1), stop(10), of("release", 130, **RELEASE)], id="the whole grace"),
        pytest.param(
            [submit(), bind(), of("start", 1), stop(10, "node_failure", None), of("release", 10, **RELEASE)],
            id="a node failure has no grace",
        ),
        pytest.param([submit(), bind(), stop(10), of("release", 10, **RELEASE)], id="nothing ran yet"),
        pytest.param([submit(hint="any"), bind(gpus={"n1": [0], "n2": [1]})], id="in pieces by its own hint"),
        pytest.param([submit(gpus=3), bind(gpus={"n1": [0, 1], "n2": [1]})], id="a whole host and a remainder"),
    ],
)
def test_a_good_log_passes(lines: Lines):
    assert violations(lines) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([submit(), submit("b"), bind(), bind("b")], "belongs to ('a', 1)", id="a GPU twice"),
        pytest.param([submit(), bind(gpus={"n1": [0]})], "gets 1 GPUs of the 2", id="half a gang"),
        pytest.param([submit(gpus=4), bind(gpus={"n1": [0, 1], "n3": [0, 1]})], "more than one AZ", id="two AZs"),
        pytest.param([submit(gpus=4), bind(gpus={"n1": [0, 1], "n4": [0, 1]})], "A100, H100", id="two types"),
        pytest.param([submit(), bind(gpus={"n1": [0], "n2": [1]})], "in pieces on n1, n2", id="in pieces"),
        pytest.param(
            [submit(gpus=4, hint="require_same_rack"), bind(gpus={"n1": [0, 1], "n2": [0, 1]})],
            "lies in 2 racks",
            id="a required rack",
        ),
        pytest.param([submit(spot_ok=False), bind(gpus={"n3": [0, 1]})], "on a spot host", id="spot"),
        pytest.param([submit(), bind(gpus={"n1": [1, 2]})], "has no GPU 2", id="a GPU that is not there"),
        pytest.param(
            [submit(), {"t": 0, "kind": "gpu", "host": "n1", "gpu": 1, "state": "FAULTY"}, bind()],
            "GPU 1 of n1 is broken",
            id="a broken GPU",
        ),
        pytest.param(
            [submit(), {"t": 0, "kind": "host", "host": "n1", "state": "CORDONED", "why": ""}, bind()],
            "n1 is CORDONED",
            id="a cordoned host",
        ),
        pytest.param([submit(), bind(fence=4)], "token 4 while 5 leads", id="a deposed leader"),
        pytest.param([{**LEADER, "fence": 5}], "does not rise above 5", id="a token again"),
        pytest.param([submit(), bind(), bind(attempt=2)], "while attempt 1 holds", id="bound twice"),
        pytest.param([submit(), of("start", 0)], "holds no GPUs", id="starts unbound"),
        pytest.param([submit(), bind(), of("start", 1), of("start", 2)], "starts twice", id="starts twice"),
        pytest.param([submit(), bind(), of("release", 1, **RELEASE)], "without a stop or an end", id="just let go"),
        pytest.param(
            [submit(), bind(), of("start", 1), stop(10), of("release", 129, **RELEASE)],
            "before its checkpoint, its exit or the end of its grace",
            id="a grace cut short",
        ),
        pytest.param(
            [submit(), bind(), of("start", 1), of("checkpoint", 5, work_s=4), stop(10), of("release", 11, **RELEASE)],
            "before its checkpoint",
            id="an older checkpoint does not count",
        ),
        pytest.param([submit(), bind(), of("end", 1, **END), of("end", 2, **END)], "ends twice", id="ends twice"),
        pytest.param([submit(), bind(), of("end", 1, **END)], "is over and holds GPUs", id="never given back"),
        pytest.param([submit(state="REJECTED"), bind()], "bound after its end", id="runs though rejected"),
        pytest.param([submit(t=5), submit("b", t=4)], "goes back from 5 to 4", id="time goes back"),
        pytest.param(
            [submit(), {"t": 0, "kind": "store", "state": "down"}, bind()], "while the store is down", id="no store"
        ),
    ],
)
def test_a_bad_log_is_caught(lines: Lines, message: str):
    assert any(message in wrong for wrong in violations(lines)), violations(lines)


def test_ceilings_hold_at_every_level():
    quota = {"dept": {"ceiling": {"H100": 3}, "children": {"ml": {"ceiling": {"H100": 2}}, "x": {}}}}
    lines = [submit(), submit("b", team="dept/x"), bind(), bind("b", {"n2": [0, 1]})]
    assert violations(lines, quota) == ["bind of b: dept uses 4 H100, its ceiling is 3"]


def test_after_an_edit_nothing_is_added_above_the_new_ceiling():
    edit = {"t": 1, "kind": "quota", "quota": {"ml": {"ceiling": {"H100": 2}}}}
    lines = [submit(), submit("b"), bind(), edit, bind("b", {"n2": [0, 1]}, t=2)]
    assert violations(lines, {"ml": {}}) == ["bind of b: ml uses 4 H100, its ceiling is 2"]


def test_reclaim_leaves_every_floor_that_the_asker_does_not_share():
    quota = {"d": {"floor": {"H100": 2}, "children": {"ml": {"floor": {"H100": 1}}, "x": {}}}, "e": {}}
    sibling = submit("b", team="x", t=1)
    stranger = submit("b", team="e", t=1)
    wrong = "stop of a: d/ml keeps 0 H100, its floor is 1"
    assert violations([*STARTED, sibling, stop(10, "reclaim")], quota) == [wrong]
    assert violations([*STARTED, stranger, stop(10, "reclaim")], quota) == [
        wrong,
        "stop of a: d keeps 0 H100, its floor is 2",
    ]
