"""What each node of the tree is owed, holds, waits for and has borrowed."""

from __future__ import annotations

from fractions import Fraction

from scheduler.core.balance import Line, balance, promised
from scheduler.core.types import QuotaTree
from tests.builders import Cluster, team


def lines(cluster: Cluster, gpu_type: str = "H100") -> dict[str, Line]:
    return {line.node: line for line in balance(cluster.snapshot, gpu_type)}


def test_who_holds_more_than_its_own_has_borrowed_from_who_waits() -> None:
    cluster = Cluster("r1: 4xH100", quota=[team("a", floor={"H100": 8}), team("b", share="3")], shares=False)
    cluster.submit("x", 24, team="a")
    cluster.submit("y", 8, team="a")
    cluster.tick()
    cluster.submit("z", 32, team="b")
    cluster.tick()
    a, b = lines(cluster)["a"], lines(cluster)["b"]
    assert (a.held, a.floor, a.burst, a.own, a.borrowed, a.part) == (32, 8, 24, 8, 24, Fraction(1, 4))
    assert (b.held, b.waiting, b.own, b.owed, b.assured) == (0, 32, 24, 24, 24)


def test_what_nobody_else_wants_is_ones_own() -> None:
    cluster = Cluster("r1: 4xH100", quota=[team("a"), team("b")])
    cluster.submit("x", 32, team="a")
    cluster.tick()
    a = lines(cluster)["a"]
    assert (a.held, a.own, a.borrowed, a.assured) == (32, 32, 0, 16)


def test_parents_sum_up_and_come_first() -> None:
    cluster = Cluster("r1: 4xH100", quota=[team("org"), team("a", "org"), team("b", "org", ceiling={"H100": 8})])
    cluster.submit("x", 8, team="a")
    cluster.submit("y", 8, team="b")
    cluster.submit("z", 8, team="b")
    cluster.tick()
    found = balance(cluster.snapshot, "H100")
    assert [(line.node, line.depth, line.team, line.held, line.waiting) for line in found] == [
        ("org", 0, False, 16, 8),
        ("a", 1, True, 8, 0),
        ("b", 1, True, 8, 8),
    ]
    assert (found[2].own, found[2].ceiling, found[2].owed) == (8, 8, 0)


def test_a_team_that_has_left_the_tree_is_there_while_it_holds() -> None:
    cluster = Cluster("r1: 4xH100", quota=[team("a"), team("b")])
    cluster.submit("x", 8, team="b")
    cluster.tick()
    cluster.snapshot.set_quota(QuotaTree((team("a"),)))
    assert (lines(cluster)["b"].closed, lines(cluster)["b"].held) == (True, 8)


def test_floors_add_up_towards_the_root() -> None:
    tree = QuotaTree(
        (
            team("org", floor={"H100": 20, "A100": 8}),
            team("a", "org", floor={"H100": 16}),
            team("b", "org", floor={"H100": 16}),
            team("alone", floor={"H100": 8}),
        )
    )
    assert promised(tree)["org"] == {"H100": 32, "A100": 8}
    assert promised(tree)[""] == {"H100": 40, "A100": 8}
