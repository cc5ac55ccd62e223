"""The demo's quota tree says what it promises, for any size of fleet."""

from __future__ import annotations

from fractions import Fraction

import pytest

from portal.demo.tree import EXAMPLE_TEAM, tree
from quotas.validation import problems

FLEETS = [
    pytest.param({"H100": 360, "A100": 104, "L40S": 48}, id="small"),
    pytest.param({"H100": 7000, "A100": 2000, "L40S": 1000}, id="full"),
    pytest.param({"H100": 8}, id="one host"),
]


@pytest.mark.parametrize("gpus", FLEETS)
def test_the_tree_is_sound_and_its_floors_can_be_delivered(gpus: dict[str, int]) -> None:
    built = tree(gpus)
    assert problems(built, gpus) == []
    for kind, count in gpus.items():
        tops = sum(node.floor.get(kind, 0) for node in built.nodes if node.parent is None)
        assert tops <= count / 2
    for top in (node for node in built.nodes if node.parent is None):
        below = [node for node in built.nodes if node.parent == top.name]
        assert len(below) == 3
        for kind in gpus:
            assert top.floor[kind] == sum(node.floor[kind] for node in below)


def test_research_has_forty_percent_and_production_sixty() -> None:
    shares = {node.name: node.share for node in tree({"H100": 360}).nodes if node.parent is None}
    assert shares == {"research": Fraction(40), "production": Fraction(60)}


def test_the_example_team_is_there_without_the_right_to_p0_that_production_has() -> None:
    p0 = {node.name: node.p0 for node in tree({"H100": 360}).nodes}
    assert p0[EXAMPLE_TEAM] is False
    assert p0["production-assistants"] is True
