"""Reads of the hosts that people run jobs on."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Sum

from nodes.models import Node
from scheduler.core.types import NodeIntent, Window


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a node token belongs to: the node's name and how many GPUs it has."""

    node: str
    gpus: int


def node_intent(node: Node) -> NodeIntent:
    """What etcd should hold of the node: its inventory and what on-call wants of it."""
    return NodeIntent(
        name=node.name,
        az=node.az,
        rack=node.rack,
        gpu_type=node.gpu_type,
        gpus=node.gpus,
        cpus=node.cpus,
        memory_gb=node.memory_gb,
        scratch_gb=node.scratch_gb,
        spot=node.spot,
        nvlink=node.nvlink,
        address=node.address,
        version=node.version,
        cordon=node.cordon_reason,
        drain=node.drain_reason,
        maintenance=tuple(Window(start, end) for start, end in node.windows),
        pardon_ms=0 if node.pardoned_at is None else round(node.pardoned_at.timestamp() * 1000),
    )


def identity_of(token_hash: str) -> Identity | None:
    """The node whose agent's token has this SHA-256, or None."""
    row = Node.objects.filter(token_hash=token_hash, removed_at=None).values_list("name", "gpus").first()
    return Identity(*row) if row else None


def largest_zones() -> dict[str, int]:
    """GPU type → the most GPUs of it that one availability zone holds, whatever the state of its nodes. One query."""
    largest: dict[str, int] = {}
    for zone in Node.objects.filter(removed_at=None).order_by().values("gpu_type", "az").annotate(held=Sum("gpus")):
        largest[zone["gpu_type"]] = max(zone["held"], largest.get(zone["gpu_type"], 0))
    return largest


def identities() -> dict[str, Identity]:
    """Every node by the SHA-256 of its agent's token."""
    rows = Node.objects.filter(removed_at=None).values_list("token_hash", "name", "gpus")
    return {token_hash: Identity(name, gpus) for token_hash, name, gpus in rows}
