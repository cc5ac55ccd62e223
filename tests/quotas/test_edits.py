"""Edits that begin and end at a time touch their own fields, whatever else is edited meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from quotas import edits, selectors, services
from quotas.diff import value_of
from quotas.models import QuotaRevision, ScheduledEdit
from quotas.validation import InvalidTree
from scheduler.core.types import QuotaNode, QuotaTree

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 4, 19, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TREE = QuotaTree(
    (
        QuotaNode("research", share=Fraction(40), floor={"H100": 64}),
        QuotaNode("vision", "research", ceiling={"H100": 32}),
    )
)


@pytest.fixture(autouse=True)
def in_force() -> None:
    services.apply(TREE, at=NOW - HOUR)


def edited(name: str, **fields: Any) -> QuotaTree:
    tree = selectors.tree()
    return replace(tree, nodes=tuple(replace(n, **fields) if n.name == name else n for n in tree.nodes))


def schedule(tree: QuotaTree, starts: datetime | None = None, ends: datetime | None = None) -> ScheduledEdit:
    return edits.schedule(
        tree, now=NOW, starts_at=starts, ends_at=ends, by_id=None, reason="deadline", based_on=selectors.version()
    )


def tick(now: datetime) -> None:
    for edit_id in edits.due(now):
        edits.advance(edit_id, now)


def in_tree(node: str, field: str) -> Any:
    return value_of(selectors.tree(), node, field)


def test_an_edit_begins_at_its_time_and_not_before() -> None:
    edit = schedule(edited("vision", ceiling={"H100": 64}), NOW + HOUR)
    tick(NOW + HOUR - timedelta(seconds=1))
    assert in_tree("vision", "ceiling.H100") == 32
    tick(NOW + HOUR)
    edit.refresh_from_db()
    assert (in_tree("vision", "ceiling.H100"), edit.state) == (64, "applied")
    assert QuotaRevision.objects.get(version=2).edit == edit


def test_an_override_goes_back_by_itself() -> None:
    edit = schedule(edited("vision", ceiling={}), None, NOW + HOUR)
    tick(NOW)
    assert in_tree("vision", "ceiling.H100") is None
    tick(NOW + HOUR)
    edit.refresh_from_db()
    assert (in_tree("vision", "ceiling.H100"), edit.state, edit.note) == (32, "reverted", "")
    assert list(edit.revisions.order_by("version").values_list("version", flat=True)) == [2, 3]


def test_done_again_nothing_changes() -> None:
    edit = schedule(edited("vision", ceiling={"H100": 64}), None, NOW + HOUR)
    for now in (NOW, NOW, NOW + HOUR, NOW + HOUR):
        edits.advance(edit.pk, now)
    assert selectors.version() == 3


def test_the_end_leaves_fields_that_were_edited_since_and_everything_else() -> None:
    edit = schedule(edited("vision", ceiling={"H100": 64}, share=Fraction(5)), None, NOW + HOUR)
    tick(NOW)
    services.apply(edited("vision", ceiling={"H100": 48}, floor={"H100": 8}), at=NOW)
    tick(NOW + HOUR)
    edit.refresh_from_db()
    assert (in_tree("vision", "ceiling.H100"), in_tree("vision", "floor.H100")) == (48, 8)
    assert in_tree("vision", "share") == "1"
    assert edit.note == "edited since, and left as it is: ceiling.H100 of vision"


def test_it_goes_back_to_what_was_in_force_when_it_began() -> None:
    schedule(edited("vision", ceiling={"H100": 64}), NOW + HOUR, NOW + 2 * HOUR)
    services.apply(edited("vision", ceiling={"H100": 40}), at=NOW)
    tick(NOW + HOUR)
    assert in_tree("vision", "ceiling.H100") == 64
    tick(NOW + 2 * HOUR)
    assert in_tree("vision", "ceiling.H100") == 40


def test_an_outage_longer_than_the_override_skips_it() -> None:
    edit = schedule(edited("vision", ceiling={"H100": 64}), NOW + HOUR, NOW + 2 * HOUR)
    tick(NOW + 3 * HOUR)
    edit.refresh_from_db()
    assert (edit.state, edit.note) == ("cancelled", "its time was over before it could begin")
    assert selectors.version() == 1


def test_a_node_that_has_gone_is_left_out_and_said_so() -> None:
    edit = schedule(edited("vision", share=Fraction(2)), NOW + HOUR)
    services.apply(QuotaTree(TREE.nodes[:1]), at=NOW)
    tick(NOW + HOUR)
    edit.refresh_from_db()
    assert (edit.state, edit.note) == ("applied", "no longer in the tree: vision")
    assert selectors.version() == 2


def test_what_would_leave_no_valid_tree_fails_whole_and_in_words() -> None:
    edit = schedule(edited("vision", floor={"H100": 32}), NOW + HOUR)
    services.apply(edited("vision", ceiling={"H100": 16}), at=NOW)
    tick(NOW + HOUR)
    edit.refresh_from_db()
    assert edit.state == "failed"
    assert "32 is above the ceiling, 16" in edit.note
    assert in_tree("vision", "floor.H100") is None


def test_one_that_waits_is_called_off_and_one_in_force_ends_at_once() -> None:
    waiting = schedule(edited("research", share=Fraction(50)), NOW + HOUR)
    running = schedule(edited("vision", ceiling={"H100": 64}), None, NOW + HOUR)
    tick(NOW)
    edits.cancel(waiting.pk, NOW)
    edits.cancel(running.pk, NOW)
    tick(NOW + 2 * HOUR)
    assert (in_tree("research", "share"), in_tree("vision", "ceiling.H100")) == ("40", 32)
    with pytest.raises(edits.EditIsOver):
        edits.cancel(waiting.pk, NOW)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        pytest.param(NOW + HOUR, NOW + 3 * HOUR, id="inside it"),
        pytest.param(None, None, id="for good, now, and so before it ends"),
        pytest.param(NOW + 2 * HOUR, None, id="for good, while it lasts"),
    ],
)
def test_a_field_belongs_to_one_override_at_a_time(starts: datetime | None, ends: datetime | None) -> None:
    schedule(edited("vision", ceiling={"H100": 64}), None, NOW + 4 * HOUR)
    with pytest.raises(edits.NotSchedulable, match=r"sets ceiling\.H100 of vision"):
        schedule(edited("vision", ceiling={"H100": 16}), starts, ends)


def test_other_fields_and_other_times_are_free() -> None:
    schedule(edited("vision", ceiling={"H100": 64}), None, NOW + HOUR)
    schedule(edited("vision", share=Fraction(3)), None, NOW + 2 * HOUR)
    schedule(edited("vision", ceiling={"H100": 16}), NOW + HOUR, NOW + 2 * HOUR)
    for hour in range(3):
        tick(NOW + hour * HOUR)
    assert (in_tree("vision", "ceiling.H100"), in_tree("vision", "share")) == (32, "1")


@pytest.mark.parametrize(
    ("tree", "starts", "ends", "words"),
    [
        pytest.param(TREE, NOW + HOUR, None, "changes nothing", id="no change"),
        pytest.param(QuotaTree((*TREE.nodes, QuotaNode("x"))), NOW + HOUR, None, "at once", id="a new node"),
        pytest.param(TREE, NOW - HOUR, None, "in the future", id="in the past"),
        pytest.param(TREE, NOW + HOUR, NOW + HOUR, "end after", id="no time at all"),
    ],
)
def test_what_cannot_be_scheduled(tree: QuotaTree, starts: datetime, ends: datetime | None, words: str) -> None:
    with pytest.raises(edits.NotSchedulable, match=words):
        schedule(tree, starts, ends)


def test_an_invalid_or_outdated_draft_is_refused_at_once() -> None:
    with pytest.raises(InvalidTree):
        schedule(edited("vision", share=Fraction(-1)), NOW + HOUR)
    with pytest.raises(services.Outdated):
        edits.schedule(
            edited("vision", share=Fraction(2)),
            now=NOW,
            starts_at=None,
            ends_at=None,
            by_id=None,
            reason="",
            based_on=0,
        )
