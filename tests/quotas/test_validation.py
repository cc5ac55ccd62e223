"""Which quota trees may come into force."""

from __future__ import annotations

from fractions import Fraction

import pytest

from quotas.validation import problems
from scheduler.core.types import QuotaNode, QuotaTree

RESEARCH = QuotaNode("research", share=Fraction(40), ceiling={"H100": 64})


@pytest.mark.parametrize(
    ("nodes", "node", "field"),
    [
        pytest.param([QuotaNode("a b")], "a b", "name", id="a name with a blank"),
        pytest.param([QuotaNode("a"), QuotaNode("a")], "a", "name", id="a name twice"),
        pytest.param([QuotaNode("a", parent="b")], "a", "parent", id="an unknown parent"),
        pytest.param([QuotaNode("a", parent="a")], "a", "parent", id="its own parent"),
        pytest.param([QuotaNode("a", parent="b"), QuotaNode("b", parent="a")], "a", "parent", id="a cycle"),
        pytest.param([QuotaNode("a", share=Fraction(-1))], "a", "share", id="a negative share"),
        pytest.param([QuotaNode("a", share=Fraction(1, 3))], "a", "share", id="a share that cannot be kept"),
        pytest.param([QuotaNode("a", share=Fraction(10**6))], "a", "share", id="a share beyond what is kept"),
        pytest.param([QuotaNode("a", floor={"H100": -1})], "a", "floor.H100", id="a negative floor"),
        pytest.param([QuotaNode("a", floor={"H900": 8})], "a", "floor.H900", id="a floor of an unknown type"),
        pytest.param([QuotaNode("a", ceiling={"H100": True})], "a", "ceiling.H100", id="a ceiling that is no number"),
        pytest.param(
            [QuotaNode("a", floor={"H100": 9}, ceiling={"H100": 8})], "a", "floor.H100", id="a floor above the ceiling"
        ),
        pytest.param(
            [
                RESEARCH,
                QuotaNode("a", "research", floor={"H100": 40}),
                QuotaNode("b", "research", floor={"H100": 25}),
            ],
            "research",
            "ceiling.H100",
            id="children are promised more than their parent may hold",
        ),
        pytest.param([QuotaNode("a", min_runtime_ms=-1000)], "a", "min_runtime", id="a negative run time"),
        pytest.param([QuotaNode("a", reclaim="all")], "a", "reclaim", id="an unknown reclaim"),
        pytest.param([QuotaNode("a", class_caps={4: 8})], "a", "class_caps.P4", id="a cap of an unknown class"),
    ],
)
def test_one_thing_wrong_is_told(nodes: list[QuotaNode], node: str, field: str) -> None:
    found = problems(QuotaTree(tuple(nodes)), gpu_types=("H100", "A100"))
    assert (node, field) in {(problem.node, problem.field) for problem in found}


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 1000), Fraction(999_999)])
def test_extreme_shares_are_taken(share: Fraction) -> None:
    assert problems(QuotaTree((QuotaNode("a", share=share),))) == []


def test_a_sound_tree_has_no_problems() -> None:
    tree = QuotaTree((RESEARCH, QuotaNode("a", "research", floor={"H100": 40}), QuotaNode("b", "research")))
    assert problems(tree, ("H100",)) == []
