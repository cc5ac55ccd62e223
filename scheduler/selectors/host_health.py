"""How one host is and was: what its GPUs read now, what its driver told of them, and when its health changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis
import structlog

from nodes import readings
from nodes.telemetry import Telemetry
from scheduler import connections
from scheduler.core.types import EventKind
from scheduler.models import JobEvent

log = structlog.get_logger(__name__)

MOST = 20
"""Faults and changes of health that are answered, the newest."""


@dataclass(frozen=True, slots=True)
class GpuFaultSeen:
    """An Xid that the driver told: when it came to the leader, of which GPU (None: of a device that is none of the
    host's), what it calls for, and the job whose rank had the GPU ("": none)."""

    at: datetime
    gpu: int | None
    xid: int
    remedy: str
    job: str


@dataclass(frozen=True, slots=True)
class HealthChange:
    """The host's health from ``at`` on, and why."""

    at: datetime
    state: str
    why: str


def telemetry(node: str) -> Telemetry | None:
    """The host's newest readings; None where it told none of late, or Redis is away."""
    try:
        return readings.read(connections.cache(), [node]).get(node)
    except redis.RedisError as error:
        log.warning("telemetry cannot be read", error=str(error))
        return None


def gpu_faults(node: str) -> list[GpuFaultSeen]:
    """The newest first. One query."""
    rows = _events(node, EventKind.GPU).filter(detail__state="XID")[:MOST]
    return [_fault(at, detail) for at, detail in rows]


def health_changes(node: str) -> list[HealthChange]:
    """The newest first. One query."""
    rows = _events(node, EventKind.HOST)[:MOST]
    return [HealthChange(at, detail["state"], detail.get("why") or "") for at, detail in rows]


def _events(node: str, kind: EventKind) -> Any:
    found = JobEvent.objects.filter(node=node, kind=kind.value).order_by("-at", "-id")
    return found.values_list("at", "detail")


def _fault(at: datetime, detail: dict[str, Any]) -> GpuFaultSeen:
    return GpuFaultSeen(at, detail.get("gpu"), detail["xid"], detail.get("remedy") or "", detail.get("job") or "")
