"""What an edit changed, field by field."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotas import diff
from quotas.diff import Change
from quotas.rows import from_rows, parents_first, to_rows
from scheduler.core.types import QuotaNode, QuotaTree

RESEARCH = QuotaNode("research", share=Fraction(40), floor={"H100": 64}, class_caps={0: 8})
VISION = QuotaNode("vision", "research", share=Fraction(1, 1000), p0=False)
SPEECH = QuotaNode("speech", "research")
OTHER = QuotaNode("other", "research")


def tree(*nodes: QuotaNode) -> QuotaTree:
    return QuotaTree(nodes)


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        pytest.param(QuotaNode("research", share=Fraction(50), floor={"H100": 64}, class_caps={0: 8}),
                     [Change("research", "share", "40", "50")], id="a share"),
        pytest.param(QuotaNode("research", share=Fraction(40), floor={"H100": 32, "A100": 8}, class_caps={0: 8}),
                     [Change("research", "floor.H100", 64, 32), Change("research", "floor.A100", None, 8)],
                     id="one floor lowered and another given"),
        pytest.param(QuotaNode("research", share=Fraction(40), floor={"H100": 64}),
                     [Change("research", "class_caps.P0", 8, None)], id="a cap taken away"),
        pytest.param(QuotaNode("research", share=Fraction(40), floor={"H100": 64}, class_caps={0: 8}, p0=False,
                               reclaim="floor", min_runtime_ms=60_000, ceiling={"H100": 0}),
                     [Change("research", "ceiling.H100", None, 0), Change("research", "min_runtime_s", 0, 60),
                      Change("research", "p0_allowed", True, False), Change("research", "reclaim", "share", "floor")],
                     id="everything else"),
    ],
)  # fmt: skip
def test_fields_that_changed_are_named(after: QuotaNode, changes: list[Change]) -> None:
    found = diff.diff(tree(RESEARCH), tree(after))
    assert sorted(found.changes, key=str) == sorted(changes, key=str)
    assert not found.reshapes


def test_equal_trees_have_no_difference() -> None:
    assert not diff.diff(tree(RESEARCH, VISION), tree(RESEARCH, VISION))


def test_nodes_that_come_go_and_move_reshape_the_tree() -> None:
    found = diff.diff(tree(RESEARCH, VISION), tree(RESEARCH, QuotaNode("speech", "research")))
    assert (found.added, found.removed) == (("speech",), ("vision",))
    assert Change("vision", "share", "0.001", None) in found.changes
    moved = diff.diff(tree(RESEARCH, VISION), tree(RESEARCH, QuotaNode("vision", share=Fraction(1, 1000), p0=False)))
    assert moved.reshapes
    assert moved.changes == (Change("vision", "parent", "research", None),)


PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""On a busy machine everything is slow."""

COUNTS = st.dictionaries(st.sampled_from(["H100", "A100"]), st.integers(0, 64))
NODES = st.builds(
    QuotaNode,
    name=st.just("a"),
    share=st.integers(0, 10**9).map(lambda millionths: Fraction(millionths, 1_000_000)),
    floor=COUNTS,
    ceiling=COUNTS,
    min_runtime_ms=st.integers(0, 100).map(lambda seconds: seconds * 1000),
    p0=st.booleans(),
    reclaim=st.sampled_from(["share", "floor"]),
    class_caps=st.dictionaries(st.integers(0, 3), st.integers(0, 64)),
)


@PATIENT
@given(NODES, NODES)
def test_a_difference_leads_from_one_tree_to_the_other_and_back(one: QuotaNode, other: QuotaNode) -> None:
    found = diff.diff(tree(one), tree(other))
    there = {(change.node, change.field): change.after for change in found.changes}
    back = {(change.node, change.field): change.before for change in found.changes}
    assert diff.with_fields(tree(one), there) == tree(other)
    assert diff.with_fields(tree(other), back) == tree(one)
    assert diff.from_json(diff.as_json(found.changes)) == found.changes


@PATIENT
@given(NODES)
def test_rows_are_read_back_as_they_were(node: QuotaNode) -> None:
    assert from_rows(to_rows(tree(node)), 3) == QuotaTree((node,), version=3)


def test_fields_of_nodes_that_are_gone_are_left_out() -> None:
    assert diff.with_fields(tree(RESEARCH), {("vision", "share"): "2"}) == tree(RESEARCH)
    assert diff.value_of(tree(RESEARCH), "vision", "share") is None


def test_parents_come_first_whatever_order_was_given() -> None:
    assert parents_first(tree(VISION, RESEARCH)) == tree(RESEARCH, VISION)
    lost = QuotaNode("lost", "nowhere")
    assert parents_first(tree(lost, VISION, RESEARCH)).nodes == (RESEARCH, VISION, lost)


def test_a_draft_is_carried_over_to_a_tree_that_has_changed_since() -> None:
    base = tree(RESEARCH, VISION)
    drafted = tree(QuotaNode("research", share=Fraction(50), floor={"H100": 64}, class_caps={0: 8}), VISION, SPEECH)
    present = tree(QuotaNode("research", share=Fraction(40), floor={"H100": 80}, class_caps={0: 8}), OTHER, VISION)
    assert diff.carried(base, drafted, present).nodes == (
        QuotaNode("research", share=Fraction(50), floor={"H100": 80}, class_caps={0: 8}),
        OTHER,
        SPEECH,
        VISION,
    )
    assert diff.carried(base, tree(RESEARCH), present).nodes == (present.nodes[0], OTHER)
