"""What people want of nodes and of the quota tree, on its way to the scheduler.

The rows belong to ``nodes`` and ``quotas``, which know nothing of the outbox; each function here changes the row by
their services and enqueues the intent, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from nodes import maintenance, selectors, services
from nodes.models import Maintenance, Node
from nodes.protocol import Inventory
from scheduler import outbox
from scheduler.core.types import QuotaTree
from scheduler.store import keys


def register_node(inventory: Inventory, token: str, join_token: str, now: datetime) -> Node:
    """``nodes.services.register``, and the scheduler learns of it."""
    with transaction.atomic():
        return _publish(*services.register(inventory, token, join_token, now))


def cordon_nodes(names: Sequence[str], reason: str) -> None:
    """No new work on the nodes; what runs there stays. Asked again, nothing changes.

    Raises:
        UnknownNode: one of them is not there; nothing is done.
    """
    with transaction.atomic():
        _publish_all(services.cordon(names, reason))


def drain_nodes(names: Sequence[str], reason: str) -> None:
    """No new work on the nodes, and what runs there moves away. Raises as ``cordon_nodes``."""
    with transaction.atomic():
        _publish_all(services.drain(names, reason))


def uncordon_nodes(names: Sequence[str]) -> None:
    """The nodes take work again: ends cordons and drains. Raises as ``cordon_nodes``."""
    with transaction.atomic():
        _publish_all(services.uncordon(names))


def pardon_nodes(names: Sequence[str], now: datetime) -> None:
    """What failed on the nodes until now is held against them no more. Raises as ``cordon_nodes``."""
    with transaction.atomic():
        _publish_all(services.pardon(names, now))


def remove_nodes(names: Sequence[str], now: datetime) -> None:
    """The nodes leave the fleet; hosts may then join under their names. What still ran there counts as lost.

    Raises as ``cordon_nodes``.
    """
    with transaction.atomic():
        for node in services.remove(names, now):
            outbox.enqueue_removal(keys.intent_node(node.name), node.version)


def plan_maintenance(
    names: Sequence[str], place: str, start: datetime, end: datetime, reason: str, by: str, now: datetime
) -> Maintenance:
    """``nodes.maintenance.plan``, and the scheduler learns of it."""
    with transaction.atomic():
        window, nodes = maintenance.plan(names, place, start, end, reason, by, now)
        _publish_all(nodes)
        return window


def cancel_maintenance(window_id: int, now: datetime) -> Maintenance:
    """``nodes.maintenance.cancel``, and the scheduler learns of it."""
    with transaction.atomic():
        window, nodes = maintenance.cancel(window_id, now)
        _publish_all(nodes)
        return window


def close_maintenance(now: datetime) -> int:
    """Take the windows that are over out of the intents of their hosts; answers of how many."""
    with transaction.atomic():
        nodes = maintenance.close(now)
        _publish_all(nodes)
        return len(nodes)


def publish_quota(tree: QuotaTree) -> None:
    """Tell the scheduler of the tree in force; call it in the transaction of ``quotas.services.apply``."""
    outbox.enqueue(keys.INTENT_QUOTA, tree)


def _publish(node: Node, changed: bool) -> Node:
    if changed:
        outbox.enqueue(keys.intent_node(node.name), selectors.node_intent(node))
    return node


def _publish_all(nodes: list[Node]) -> None:
    outbox.enqueue_all({keys.intent_node(node.name): selectors.node_intent(node) for node in nodes})
