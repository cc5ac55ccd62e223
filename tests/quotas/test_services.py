"""Quota trees come into force whole, once, and with their history."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from quotas import models, selectors, services
from quotas.validation import InvalidTree
from scheduler.core.types import QuotaNode, QuotaTree

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 4, 19, tzinfo=UTC)
RESEARCH = QuotaNode("research", share=Fraction(40), ceiling={"H100": 64}, p0=False)
VISION = QuotaNode(
    "vision", "research", share=Fraction(1, 1000), floor={"H100": 16}, min_runtime_ms=60_000, class_caps={0: 8}
)
ADS = QuotaNode("ads", share=Fraction(60), reclaim="floor")
TREE = QuotaTree((ADS, RESEARCH, VISION))


def test_what_was_applied_is_read_back_parents_first() -> None:
    applied = services.apply(TREE, at=NOW)
    assert applied == selectors.tree() == QuotaTree(TREE.nodes, version=1)


def test_the_same_tree_again_is_no_new_version() -> None:
    services.apply(TREE, at=NOW)
    assert services.apply(QuotaTree((RESEARCH, VISION, ADS)), at=NOW).version == 1
    assert models.QuotaRevision.objects.count() == 1


def test_each_change_is_a_version_with_its_tree() -> None:
    services.apply(TREE, at=NOW)
    services.apply(QuotaTree((RESEARCH,)), at=NOW, reason="reorganised")
    kept = models.QuotaRevision.objects.get(version=2)
    assert (kept.reason, [node["name"] for node in kept.tree]) == ("reorganised", ["research"])
    assert models.QuotaRevision.objects.get(version=1).tree[2]["share"] == "0.001"


def test_seeding_leaves_a_tree_that_is_there() -> None:
    services.seed(TREE, NOW)
    assert services.seed(QuotaTree((ADS,)), NOW) == selectors.tree() == QuotaTree(TREE.nodes, version=1)


def test_an_edit_of_an_older_version_is_refused() -> None:
    services.apply(TREE, at=NOW)
    services.apply(QuotaTree((RESEARCH, VISION)), at=NOW, based_on=1)
    with pytest.raises(services.Outdated) as refused:
        services.apply(QuotaTree((RESEARCH,)), at=NOW, based_on=1)
    assert refused.value.version == 2
    assert len(selectors.tree().nodes) == 2


def test_an_invalid_tree_changes_nothing() -> None:
    services.apply(TREE, at=NOW)
    with pytest.raises(InvalidTree):
        services.apply(QuotaTree((QuotaNode("x", parent="nowhere"),)), at=NOW)
    assert selectors.tree() == QuotaTree(TREE.nodes, version=1)


def test_a_whole_branch_may_go_and_come_back_elsewhere() -> None:
    services.apply(TREE, at=NOW)
    services.apply(QuotaTree((ADS,)), at=NOW)
    moved = QuotaTree((ADS, QuotaNode("vision", "ads")))
    assert services.apply(moved, at=NOW) == QuotaTree(moved.nodes, version=3)


def test_reading_the_tree_takes_one_query(django_assert_num_queries) -> None:
    services.apply(TREE, at=NOW)
    with django_assert_num_queries(1):
        selectors.tree()


def test_a_tree_in_force_is_read_once_and_again_after_each_change(django_assert_num_queries) -> None:
    services.apply(TREE, at=NOW)
    selectors.tree_in_force()
    with django_assert_num_queries(1):
        assert selectors.tree_in_force() == QuotaTree(TREE.nodes, version=1)
    services.apply(QuotaTree((ADS,)), at=NOW)
    assert selectors.tree_in_force() == QuotaTree((ADS,), version=2)


def test_without_a_revision_nothing_is_remembered() -> None:
    assert selectors.tree_in_force() == QuotaTree(version=0)
    models.QuotaNode.objects.create(name="ads")
    assert [node.name for node in selectors.tree_in_force().nodes] == ["ads"]


def test_an_empty_tree_has_a_version_too() -> None:
    services.apply(TREE, at=NOW)
    assert services.apply(QuotaTree(), at=NOW) == selectors.tree() == QuotaTree(version=2)


def test_paths_and_teams() -> None:
    assert [node.name for node in selectors.path(TREE, "vision")] == ["vision", "research"]
    assert selectors.path(TREE, "nobody") == []
    assert [node.name for node in selectors.teams(TREE)] == ["ads", "vision"]


def test_descendants_reach_to_the_leaves() -> None:
    services.apply(TREE, at=NOW)
    ids = {node.name: node.pk for node in models.QuotaNode.objects.all()}
    assert selectors.with_descendants([ids["research"]]) == {name: ids[name] for name in ("research", "vision")}
    assert selectors.with_descendants([ids["ads"]]) == {"ads": ids["ads"]}
