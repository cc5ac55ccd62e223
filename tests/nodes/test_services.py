from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from nodes import services
from nodes.models import JoinToken, Node
from nodes.protocol import Inventory
from nodes.selectors import Identity, identity_of, node_intent
from nodes.tokens import token_hash
from scheduler.core.types import NodeIntent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = Inventory("az1-r1-h1", "az1", "r1", "H100", spot="aws")

pytestmark = pytest.mark.django_db


@pytest.fixture
def join() -> str:
    services.create_join_token("join", 2, NOW + timedelta(hours=1))
    return "join"


def _uses_left() -> int:
    return JoinToken.objects.get().uses_left


def test_a_new_host_joins_and_uses_up_one_use(join: str) -> None:
    node, changed = services.register(HOST, "own", join, NOW)
    assert changed and _uses_left() == 1
    assert node_intent(node) == NodeIntent("az1-r1-h1", "az1", "r1", "H100", spot="aws")
    assert identity_of(token_hash("own")) == Identity("az1-r1-h1", 8)


def test_asked_again_with_its_own_token_it_is_the_same_node(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    node, changed = services.register(HOST, "own", join, NOW)
    assert not changed and node.version == 1 and _uses_left() == 1


def test_new_inventory_of_a_known_node_raises_the_version_of_its_intent(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    node, changed = services.register(msgspec.structs.replace(HOST, gpus=4), "own", "", NOW)
    assert changed
    assert (node_intent(node).gpus, node_intent(node).version) == (4, 2)


def test_a_name_belongs_to_whom_it_was_given(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    with pytest.raises(services.NameTaken):
        services.register(HOST, "another", join, NOW)
    assert _uses_left() == 1


@pytest.mark.parametrize(
    ("token", "now"),
    [
        pytest.param("wrong", NOW, id="unknown"),
        pytest.param("", NOW, id="none"),
        pytest.param("join", NOW + timedelta(hours=1), id="expired"),
    ],
)
def test_nobody_joins_without_a_good_join_token(join: str, token: str, now: datetime) -> None:
    with pytest.raises(services.JoinRefused):
        services.register(HOST, "own", token, now)
    assert not Node.objects.exists() and _uses_left() == 2


def test_a_join_token_is_used_up(join: str) -> None:
    for number in range(2):
        services.register(msgspec.structs.replace(HOST, name=f"h{number}"), f"own-{number}", join, NOW)
    with pytest.raises(services.JoinRefused):
        services.register(HOST, "own", join, NOW)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "A/B"),
        ("name", ""),
        ("name", "x\n"),
        ("az", "az 1"),
        ("rack", "a/b"),
        ("gpu_type", "any"),
        ("gpu_type", "H100 SXM"),
        ("gpus", 0),
        ("gpus", 65),
        ("cpus", -1),
        ("memory_gb", 2**40),
        ("scratch_gb", -1),
        ("spot", "oracle"),
        ("address", "a b"),
    ],
)
def test_inventory_out_of_bounds_is_refused_by_field(join: str, field: str, value: object) -> None:
    with pytest.raises(services.InventoryRefused) as caught:
        services.register(msgspec.structs.replace(HOST, **{field: value}), "own", join, NOW)
    assert [problem.field for problem in caught.value.problems] == [f"node.{field}"]
    assert _uses_left() == 2


def test_wishes_raise_the_version_only_when_they_change_something(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    steps = [
        services.cordon([HOST.name], "disk"),
        services.cordon([HOST.name], "disk"),
        services.drain([HOST.name], "swap"),
        services.uncordon([HOST.name]),
        services.uncordon([HOST.name]),
    ]
    assert [[node.version for node in changed] for changed in steps] == [[2], [], [3], [4], []]
    intent = node_intent(Node.objects.get())
    assert (intent.version, intent.cordon, intent.drain) == (4, None, None)


def test_of_many_hosts_one_that_is_not_there_stops_the_act(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    with pytest.raises(services.UnknownNode, match="x9"):
        services.drain([HOST.name, "x9"], "power")
    assert node_intent(Node.objects.get()).drain is None


def test_many_hosts_cost_as_many_statements_as_one(
    join: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    services.create_join_token("join", 20, NOW + timedelta(hours=1))
    names = [f"h{number:02}" for number in range(20)]
    for name in names:
        services.register(msgspec.structs.replace(HOST, name=name), f"own-{name}", join, NOW)
    with django_assert_num_queries(4):  # the two, and a savepoint
        assert len(services.drain(names, "power")) == 20


@pytest.mark.parametrize("wish", [lambda: services.cordon(["x"], "y"), lambda: services.uncordon(["x"])])
def test_a_node_that_there_is_not_has_no_wishes(wish) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(services.UnknownNode):
        wish()


@pytest.mark.django_db(transaction=True)
def test_of_many_that_join_at_once_no_more_come_in_than_the_token_lets(join: str) -> None:
    services.create_join_token("join", 3, NOW + timedelta(hours=1))
    refused = []

    def come(number: int) -> None:
        try:
            services.register(msgspec.structs.replace(HOST, name=f"h{number}"), f"own-{number}", join, NOW)
        except services.JoinRefused:
            refused.append(number)
        finally:
            connection.close()

    _at_once(come, 8)
    assert Node.objects.count() == 3 and len(refused) == 5 and _uses_left() == 0


@pytest.mark.django_db(transaction=True)
def test_of_many_that_want_one_name_at_once_one_gets_it(join: str) -> None:
    services.create_join_token("join", 8, NOW + timedelta(hours=1))
    taken = []

    def come(number: int) -> None:
        try:
            services.register(HOST, f"own-{number}", join, NOW)
        except services.NameTaken:
            taken.append(number)
        finally:
            connection.close()

    _at_once(come, 6)
    assert len(taken) == 5 and _uses_left() == 7


def _at_once(call, many: int) -> None:  # type: ignore[no-untyped-def]
    threads = [threading.Thread(target=call, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_removed_node_is_gone_and_its_name_can_be_joined_under_anew(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    services.drain([HOST.name], "old")
    version = services.remove([HOST.name], NOW)[0].version
    assert identity_of(token_hash("own")) is None
    with pytest.raises(services.UnknownNode):
        services.cordon([HOST.name], "again")
    node, changed = services.register(HOST, "fresh", join, NOW)
    assert changed and node.version > version and node.drain_reason is None
    assert identity_of(token_hash("fresh")) is not None
    assert node_intent(node).pardon_ms == NOW.timestamp() * 1000


def test_a_removed_node_needs_a_join_token_to_come_back(join: str) -> None:
    services.register(HOST, "own", join, NOW)
    services.remove([HOST.name], NOW)
    with pytest.raises(services.JoinRefused):
        services.register(HOST, "own", "wrong", NOW)
