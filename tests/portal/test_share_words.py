"""Why a team holds what it holds, in sentences."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from portal.views.quota_bars import bars, words
from portal.views.share_words import borrowers, why
from scheduler.core.balance import Line
from scheduler.selectors.shares import TypeShares


def line(node: str, parent: str | None = None, **fields: Any) -> Line:
    base: dict[str, Any] = {
        "node": node, "parent": parent, "depth": 1 if parent else 0, "team": parent is not None, "gpu_type": "H100",
        "share": Fraction(1), "part": Fraction(1, 2), "floor": 0, "ceiling": None, "held": 0, "waiting": 0, "own": 0,
        "assured": 0,
    }  # fmt: skip
    return Line(**(base | fields))


def shares(*lines: Line) -> TypeShares:
    return TypeShares("H100", 64, 64, lines)


ORG = line("org", part=Fraction(2, 5), own=24, assured=24, held=24)


@pytest.mark.parametrize(
    ("team", "others", "sentence"),
    [
        pytest.param(
            {"held": 16, "own": 8},
            [],
            "It holds 16, 8 more than its own now, which is 8: others may take those back",
            id="has borrowed",
        ),
        pytest.param({"held": 8, "assured": 8, "own": 8}, [], "all that it wants is its own", id="within its own"),
        pytest.param(
            {"waiting": 8, "own": 8},
            [line("b", "org", held=24, own=16)],
            "It is owed 8. Who holds more than their own: b (8).",
            id="others hold what it is owed",
        ),
        pytest.param({"waiting": 8, "own": 8}, [], "nobody holds more than their own", id="waits for ends"),
        pytest.param({"held": 8, "waiting": 8, "own": 8, "ceiling": 8}, [], "at its ceiling, 8", id="at its ceiling"),
        pytest.param({"held": 8, "waiting": 8, "own": 8}, [], "beyond its own", id="wants more than its own"),
    ],
)
def test_why(team: dict[str, Any], others: list[Line], sentence: str) -> None:
    told = why(shares(ORG, line("a", "org", **team), *others), "a")
    assert any(sentence in one for one in told), told
    assert told[0].startswith("64 H100 GPUs are in service. By shares, org 40 % of the cluster and a 50 % of org")


def test_a_team_that_the_planner_does_not_know() -> None:
    assert why(shares(ORG), "a") == ["a is not in the tree that the planner goes by."]
    assert borrowers(shares(ORG), "a") == []


def test_bars_are_to_one_scale_and_say_the_same_in_words() -> None:
    wide, narrow = bars([line("a", held=50, own=100, floor=25), line("b", held=10, own=5, ceiling=20, waiting=10)])
    assert (wide.inside, wide.own, wide.held, wide.floor, wide.ceiling) == (250, 500, 500, 250, None)
    assert (narrow.inside, narrow.own, narrow.held, narrow.wanted, narrow.ceiling) == (0, 50, 100, 200, 200)
    assert words(narrow.line) == (
        "b holds 10 H100 GPUs, its own 5, 10 above its floor, 5 borrowed, waits for 10 more, ceiling 20"
    )
    assert bars([line("a")])[0].held == 0
