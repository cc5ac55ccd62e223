from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from nodes import services as nodes
from nodes.protocol import Inventory
from scheduler import intents
from scheduler.core.types import NodeIntent, QuotaNode, QuotaTree
from scheduler.models import Outbox
from scheduler.store import codec, keys
from scheduler.store.memory import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = Inventory("n1", "az1", "r1", "H100")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore(lambda: 0)
    monkeypatch.setattr("scheduler.connections.store", lambda: store)
    return store


@pytest.fixture
def registered(store: MemoryStore) -> None:
    nodes.create_join_token("join", 1, NOW + timedelta(days=1))
    intents.register_node(HOST, "t" * 64, "join", NOW)


def known(store: MemoryStore) -> NodeIntent:
    entry = store.get(keys.intent_node("n1"))
    assert entry is not None
    return codec.decode(NodeIntent, entry.value)


def test_a_registered_node_is_known_to_the_scheduler(store: MemoryStore, registered: None) -> None:
    assert known(store) == NodeIntent("n1", "az1", "r1", "H100")


def test_cordon_drain_and_uncordon_reach_the_scheduler(store: MemoryStore, registered: None) -> None:
    intents.cordon_nodes(["n1"], "a fan")
    assert (known(store).cordon, known(store).drain) == ("a fan", None)
    intents.drain_nodes(["n1"], "a disk")
    assert (known(store).cordon, known(store).drain) == ("a fan", "a disk")
    intents.uncordon_nodes(["n1"])
    assert (known(store).cordon, known(store).drain, known(store).version) == (None, None, 4)


def test_asked_again_nothing_is_published(store: MemoryStore, registered: None) -> None:
    intents.cordon_nodes(["n1"], "a fan")
    revision = store.read(keys.PREFIX).revision
    intents.cordon_nodes(["n1"], "a fan")
    assert store.read(keys.PREFIX).revision == revision
    assert not Outbox.objects.exists()


def test_a_node_that_nobody_registered_is_refused(store: MemoryStore) -> None:
    with pytest.raises(nodes.UnknownNode):
        intents.cordon_nodes(["n9"], "a fan")
    assert not Outbox.objects.exists()


def test_the_tree_in_force_reaches_the_scheduler_with_its_transaction(store: MemoryStore) -> None:
    tree = QuotaTree((QuotaNode("vision"),), version=3)
    with transaction.atomic():
        intents.publish_quota(tree)
        assert store.get(keys.INTENT_QUOTA) is None, "not before the commit"
    entry = store.get(keys.INTENT_QUOTA)
    assert entry is not None
    assert codec.decode(QuotaTree, entry.value) == tree
