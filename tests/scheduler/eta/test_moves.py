"""Why a start moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.eta.moves import WORDS, Moved, Seen, has_moved, why

JOBS = {"mine": ("H100", 2), "runs": ("H100", 2)}
BEFORE = Seen(0, 1, 7, {"runs": 600_000}, JOBS, "model")
MINUTE = 60_000


@pytest.mark.parametrize(
    ("later", "changed", "expected"),
    [
        (True, {"quota": 2}, Moved.QUOTA),
        (True, {"hosts": 8}, Moved.CLUSTER),
        (True, {"jobs": JOBS | {"new": ("A100", 0)}}, Moved.P0),
        (True, {"at_ms": 601_000}, Moved.RAN_LONG),
        (False, {"at_ms": 300_000, "ends": {}, "jobs": {"mine": ("H100", 2)}}, Moved.ENDED_EARLY),
        (True, {"jobs": JOBS | {"new": ("H100", 1)}}, Moved.OTHERS_CAME),
        (True, {"jobs": JOBS | {"new": ("A100", 1)}}, Moved.DRAWN),
        (True, {"version": "likes"}, Moved.LEARNED),
        (False, {}, Moved.DRAWN),
    ],
)
def test_the_cause_that_differs_is_told(later: bool, changed: dict[str, Any], expected: Moved) -> None:
    assert why("mine", later, BEFORE, replace(BEFORE, **changed)) is expected


def test_each_cause_has_words() -> None:
    assert set(WORDS) == set(Moved)


@pytest.mark.parametrize(
    ("told", "before", "moved"),
    [(10 * MINUTE, 9 * MINUTE, False), (20 * MINUTE, 10 * MINUTE, True), (600 * MINUTE, 590 * MINUTE, False)],
)
def test_little_is_no_move(told: int, before: int, moved: bool) -> None:
    assert has_moved(told, before, 0) is moved
