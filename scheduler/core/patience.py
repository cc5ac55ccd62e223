"""Waiting a while for a tighter domain: a gang that prefers one rack takes no wider place before its time is over.

The time counts from when the job could first be tried: submitted, and not held, not waiting for others, its back-off
over. Where no rack would ever hold the gang, or one host does, there is nothing to wait for.
"""

from __future__ import annotations

from heapq import heappop, heappush

from scheduler.core.topology import Rack, Topology
from scheduler.core.types import ANY_GPU_TYPE, Hint, JobDecision, JobSpec, Policy

PREFERS = frozenset({Hint.PREFER_SAME_HOST, Hint.PREFER_SAME_RACK})


def eligible_ms(spec: JobSpec, decision: JobDecision) -> int:
    """Since when the job could be tried."""
    return max(spec.submitted_ms, decision.not_before_ms, decision.eligible_ms)


def promised_until_ms(spec: JobSpec, decision: JobDecision, policy: Policy) -> int:
    """Until when a gang that prefers one rack is promised its start in one: by its own wish, else by the fleet's."""
    wait = policy.rack_wait_ms if spec.topology_wait_ms is None else spec.topology_wait_ms
    return eligible_ms(spec, decision) + wait


class Patience:
    """The jobs that wait so, and until when. ``stale``: whether a rack holds them has to be asked again."""

    def __init__(self) -> None:
        self.until: dict[str, int] = {}
        self.stale = False
        self._heap: list[tuple[int, str]] = []

    def binds(self, spec: JobSpec, decision: JobDecision, topology: Topology, now_ms: int) -> bool:
        """Whether the job, which begins to wait, takes one rack or nothing for now."""
        if not spec.topology_wait_ms or spec.hint not in PREFERS:
            return False
        until = eligible_ms(spec, decision) + spec.topology_wait_ms
        if until <= now_ms:
            return False
        self.until[spec.id] = until
        heappush(self._heap, (until, spec.id))
        return _in_one_rack(topology, spec)

    def due(self, now_ms: int) -> list[str]:
        """The jobs that have to be asked again: their time is over, or the racks have changed."""
        names = []
        while self._heap and self._heap[0][0] <= now_ms:
            until, name = heappop(self._heap)
            if self.until.get(name) == until:
                del self.until[name]
                names.append(name)
        if self.stale:
            self.stale = False
            names += sorted(self.until)
        return names

    def next_ms(self) -> int | None:
        """When the next one's time is over."""
        while self._heap and self.until.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def forget(self, job: str) -> None:
        self.until.pop(job, None)


def _in_one_rack(topology: Topology, spec: JobSpec) -> bool:
    """Whether the gang takes several hosts, and some rack would hold it if it were empty."""
    zones = [zone for zone in topology.zones.values() if spec.gpu_type in (ANY_GPU_TYPE, zone.gpu_type)]
    if any(spec.gpus <= zone.largest for zone in zones):
        return False
    return any(_holds(rack, spec.gpus) for zone in zones for rack in zone.racks())


def _holds(rack: Rack, gpus: int) -> bool:
    hosts = sum(1 for node in rack.nodes if node.rack is rack)
    return hosts >= -(-gpus // rack.pool.size)
