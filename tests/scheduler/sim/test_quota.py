"""Quota trees as scenarios write and edit them."""

from __future__ import annotations

from fractions import Fraction

from scheduler.sim.quota import Branch, Names, lay_over, read_branches, tree, walk, written
from scheduler.sim.reading import Fields


def branches(value: object) -> dict[str, Branch]:
    return read_branches(Fields("s.yaml", "quota", value))


def test_an_edit_changes_only_the_fields_that_it_names():
    before = branches({"dept": {"ceiling": {"H100": 16, "A100": 8}, "children": {"t1": {"share": 2}, "t2": {}}}})
    edit = branches({"dept": {"ceiling": {"H100": 28}, "children": {"t2": {"floor": {"H100": 4}}}}})
    assert written(lay_over(before, edit)) == {
        "dept": {
            "ceiling": {"H100": 28, "A100": 8},
            "children": {"t1": {"share": 2}, "t2": {"floor": {"H100": 4}}},
        }
    }
    assert written(before)["dept"]["ceiling"]["H100"] == 16, "the tree before stays as it was"


def test_an_edit_may_take_a_ceiling_away_and_add_a_team():
    merged = lay_over(branches({"a": {"ceiling": {"H100": 8}}}), branches({"a": {"ceiling": None}, "b": {}}))
    assert written(merged) == {"a": {"ceiling": {}}, "b": {}}


def test_the_records_have_parents_before_their_children():
    found = branches({"a": {"share": 0.5, "children": {"b": {"min_runtime": "30m", "p0": False, "reclaim": "floor"}}}})
    records = tree(found, Names.over({path for path, _ in walk(found)}), 3)
    assert [(node.name, node.parent) for node in records.nodes] == [("a", None), ("b", "a")]
    assert records.nodes[0].share == Fraction(1, 2)
    assert (records.nodes[1].min_runtime_ms, records.nodes[1].p0, records.nodes[1].reclaim) == (
        1_800_000,
        False,
        "floor",
    )
    assert (records.version, records.open) == (3, False)


def test_what_is_written_reads_as_the_same_tree():
    found = branches({"a": {"share": 0.001, "min_runtime": "1.5m", "children": {"b": {"floor": {"H100": 8}}}}})
    assert branches(written(found)) == found
