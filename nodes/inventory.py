"""What a host may be made of: the bounds within which an agent's inventory is believed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodes.protocol import Inventory

SPOT_PROVIDERS = ("aws", "gcp", "azure")

# Names become keys in etcd and parts of addresses, so they are hosts' names and nothing else.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,126}[a-z0-9])?")
_PLACE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")
_ADDRESS = re.compile(r"[A-Za-z0-9.:\[\]_-]{0,255}")

_TEXTS = (
    ("name", _NAME, "lower-case letters, digits, dots and dashes, at most 128 characters"),
    ("az", _PLACE, "letters, digits, dots, dashes and underscores, at most 64 characters"),
    ("rack", _PLACE, "letters, digits, dots, dashes and underscores, at most 64 characters"),
    ("gpu_type", _GPU_TYPE, "letters, digits and dashes, at most 32 characters"),
    ("address", _ADDRESS, "a host name or an IP address, with a port or without"),
)
_NUMBERS = (
    ("gpus", 1, 64),
    ("cpus", 1, 65_536),
    ("memory_gb", 1, 1_048_576),
    ("scratch_gb", 0, 16_777_216),
)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    field: str
    reason: str


def problems(inventory: Inventory) -> list[FieldProblem]:
    """Everything about the inventory that cannot be, by field; empty if it is a host."""
    found = [
        FieldProblem(f"node.{field}", f"must be {wanted}")
        for field, pattern, wanted in _TEXTS
        if not pattern.fullmatch(getattr(inventory, field))
    ]
    found += [
        FieldProblem(f"node.{field}", f"must be from {low} to {high}")
        for field, low, high in _NUMBERS
        if not low <= getattr(inventory, field) <= high
    ]
    if inventory.spot is not None and inventory.spot not in SPOT_PROVIDERS:
        found.append(FieldProblem("node.spot", f"must be one of {', '.join(SPOT_PROVIDERS)}, or null"))
    if inventory.gpu_type == "any":
        found.append(FieldProblem("node.gpu_type", "must be the type of the host's GPUs; 'any' is for jobs"))
    return found
