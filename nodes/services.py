"""Writes to the hosts: an agent registers, on-call cordons and drains.

Each function changes PostgreSQL alone, raises the node's version where its intent changed, and expects to run in the
transaction in which its caller also puts the new intent in the outbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from nodes.inventory import FieldProblem, problems
from nodes.models import JoinToken, Node
from nodes.protocol import Inventory
from nodes.tokens import token_hash


class InventoryRefused(Exception):
    """The inventory is not that of a host that Gangway can run jobs on."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.reason}" for problem in problems))
        self.problems = problems


class JoinRefused(Exception):
    """The join token is unknown, used up or expired. Which of them is not told."""


class NameTaken(Exception):
    """A node of this name exists and the caller did not prove to be it."""


class UnknownNode(Exception):
    """There is no node of this name."""


_INVENTORY = ("az", "rack", "gpu_type", "gpus", "cpus", "memory_gb", "scratch_gb", "spot", "nvlink", "address")


def create_join_token(token: str, uses: int, expires_at: datetime) -> JoinToken:
    """Let ``uses`` agents join with ``token`` until ``expires_at``; the same token again sets both anew."""
    joined, _ = JoinToken.objects.update_or_create(
        token_hash=token_hash(token), defaults={"uses_left": uses, "expires_at": expires_at}
    )
    return joined


def register(inventory: Inventory, token: str, join_token: str, now: datetime) -> tuple[Node, bool]:
    """Make the node known, or take note of its new inventory; answers it, and whether anything changed.

    A known node proves itself with its own ``token`` and needs no join token, so that an agent which chose its token
    and never saw the answer may ask again. A new one uses up one use of ``join_token``.

    Raises:
        InventoryRefused: a field is out of range.
        JoinRefused: the node is new and the join token does not let it in.
        NameTaken: the node is known and ``token`` is not its own.
    """
    found = problems(inventory)
    if found:
        raise InventoryRefused(found)
    with transaction.atomic():
        node = Node.objects.select_for_update().filter(name=inventory.name).first()
        if node is None:
            return _join(inventory, token, join_token, now), True
        if node.removed_at is not None:
            return _rejoin(node, inventory, token, join_token, now), True
        if node.token_hash != token_hash(token):
            raise NameTaken(inventory.name)
        return node, _take_inventory(node, inventory)


def _join(inventory: Inventory, token: str, join_token: str, now: datetime) -> Node:
    _use(join_token, now)
    fields = {name: getattr(inventory, name) for name in _INVENTORY}
    try:
        with transaction.atomic():
            return Node.objects.create(name=inventory.name, token_hash=token_hash(token), **fields)
    except IntegrityError as error:
        # Another agent took the name between our look and our insert.
        raise NameTaken(inventory.name) from error


def _rejoin(node: Node, inventory: Inventory, token: str, join_token: str, now: datetime) -> Node:
    """A host under the name of one that was removed: a new one, but for the version of its intent."""
    _use(join_token, now)
    for name in _INVENTORY:
        setattr(node, name, getattr(inventory, name))
    node.token_hash = token_hash(token)
    node.removed_at, node.cordon_reason, node.drain_reason, node.windows = None, None, None, []
    node.registered_at = node.pardoned_at = now
    node.version += 1
    node.save()
    return node


def _use(join_token: str, now: datetime) -> None:
    row = JoinToken.objects.select_for_update().filter(token_hash=token_hash(join_token)).first()
    if row is None or row.uses_left < 1 or row.expires_at <= now:
        raise JoinRefused
    row.uses_left -= 1
    row.save(update_fields=["uses_left"])


def _take_inventory(node: Node, inventory: Inventory) -> bool:
    changed = [name for name in _INVENTORY if getattr(node, name) != getattr(inventory, name)]
    for name in changed:
        setattr(node, name, getattr(inventory, name))
    return _save(node, changed)


def cordon(names: Sequence[str], reason: str) -> list[Node]:
    """No new work on the nodes; what runs there stays. Answers those of which something changed.

    Raises:
        UnknownNode: one of them is not there; nothing is done. So do the others below.
    """
    return _wish(names, cordon_reason=reason)


def drain(names: Sequence[str], reason: str) -> list[Node]:
    """No new work on the nodes, and what runs there moves away."""
    return _wish(names, drain_reason=reason)


def uncordon(names: Sequence[str]) -> list[Node]:
    """The nodes take work again: ends cordons and drains."""
    return _wish(names, cordon_reason=None, drain_reason=None)


def pardon(names: Sequence[str], now: datetime) -> list[Node]:
    """What failed on the nodes until now is held against them no more: ends a quarantine."""
    return _wish(names, pardoned_at=now)


def remove(names: Sequence[str], now: datetime) -> list[Node]:
    """The nodes are no part of the fleet any more; their tokens open nothing, their names may be joined under anew."""
    return _wish(names, removed_at=now, token_hash="")


def _wish(names: Sequence[str], **wanted: str | datetime | None) -> list[Node]:
    """Two statements however many nodes: they are locked in the order of their names, as everybody does."""
    with transaction.atomic():
        nodes = list(Node.objects.select_for_update().filter(name__in=names, removed_at=None).order_by("name"))
        missing = set(names) - {node.name for node in nodes}
        if missing:
            raise UnknownNode(min(missing))
        changed = [node for node in nodes if any(getattr(node, field) != value for field, value in wanted.items())]
        for node in changed:
            for field, value in wanted.items():
                setattr(node, field, value)
            node.version += 1
        names_changed = [node.name for node in changed]
        Node.objects.filter(name__in=names_changed).update(**wanted, version=F("version") + 1)
        return changed


def _save(node: Node, changed: list[str]) -> bool:
    if changed:
        node.version += 1
        node.save(update_fields=[*changed, "version"])
    return bool(changed)
