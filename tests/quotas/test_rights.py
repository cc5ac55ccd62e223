"""An admin of a node divides what it has; what it has, and what binds others, is for those above."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from quotas.rights import editable, overreach
from scheduler.core.types import QuotaNode, QuotaTree

RESEARCH = QuotaNode("research", share=Fraction(40), floor={"H100": 64}, min_runtime_ms=60_000)
SPEECH = QuotaNode("speech", "research", floor={"H100": 16})
VISION = QuotaNode("vision", "research", floor={"H100": 16})
SALES = QuotaNode("sales")
BEFORE = QuotaTree((RESEARCH, SPEECH, VISION, SALES))
INSIDE = {"research", "speech", "vision"}


def edit(name: str, **fields: Any) -> QuotaTree:
    return QuotaTree(tuple(replace(node, **fields) if node.name == name else node for node in BEFORE.nodes))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(edit("vision", share=Fraction(7), ceiling={"H100": 32}, p0=False), id="shares of what it has"),
        pytest.param(edit("vision", floor={"H100": 48}), id="floors up to its own"),
        pytest.param(edit("vision", min_runtime_ms=60_000), id="protection that the node has itself"),
        pytest.param(QuotaTree((*BEFORE.nodes, QuotaNode("music", "research"))), id="a new team below"),
        pytest.param(QuotaTree((RESEARCH, VISION, SALES)), id="a team below gone"),
        pytest.param(BEFORE, id="nothing"),
    ],
)
def test_an_admin_of_research_may(after: QuotaTree) -> None:
    assert overreach(BEFORE, after, INSIDE) == []


@pytest.mark.parametrize(
    ("after", "node", "words"),
    [
        pytest.param(edit("research", share=Fraction(90)), "research", "administrator", id="its own share"),
        pytest.param(edit("research", floor={"H100": 999}), "research", "administrator", id="its own floor"),
        pytest.param(edit("sales", share=Fraction(0)), "sales", "administrator", id="a sibling's share"),
        pytest.param(edit("vision", floor={"H100": 49}), "research", "may come to 64", id="floors beyond its own"),
        pytest.param(edit("vision", floor={"A100": 1}), "research", "may come to 0", id="floors of another type"),
        pytest.param(edit("vision", min_runtime_ms=61_000), "vision", "60 s at most", id="more protection"),
        pytest.param(edit("vision", parent="sales"), "vision", "admin of sales", id="giving a team away"),
        pytest.param(edit("sales", parent="research"), "sales", "administrator", id="taking one in"),
        pytest.param(QuotaTree((*BEFORE.nodes, QuotaNode("mine"))), "mine", "administrator", id="a new root"),
    ],
)  # fmt: skip
def test_an_admin_of_research_may_not(after: QuotaTree, node: str, words: str) -> None:
    (problem, *_) = overreach(BEFORE, after, INSIDE)
    assert problem.node == node
    assert words in problem.reason


def test_a_member_may_nothing_and_an_administrator_everything() -> None:
    after = edit("vision", share=Fraction(2))
    assert overreach(BEFORE, after, set()) != []
    assert overreach(BEFORE, edit("research", floor={"H100": 999}), None) == []


def test_floors_that_were_too_much_before_may_stay() -> None:
    before = QuotaTree((replace(RESEARCH, floor={}), SPEECH, VISION))
    after = QuotaTree(
        (replace(RESEARCH, floor={}), replace(SPEECH, floor={"H100": 8}), replace(VISION, floor={"H100": 24}))
    )
    assert overreach(before, after, INSIDE) == []


def test_what_may_be_edited_is_what_lies_below() -> None:
    assert editable(BEFORE, INSIDE) == {"speech", "vision"}
    assert editable(BEFORE, None) == {"research", "speech", "vision", "sales"}
    assert editable(BEFORE, set()) == set()
