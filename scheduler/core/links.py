"""How much slower a gang trains for sitting apart: an all-reduce runs at the speed of its slowest link.

A step is computation plus an exchange over the slowest link, ``COMPUTE + 1 / bandwidth``. ``COMPUTE`` is set so that a
gang in one rack is three times as fast as the same gang over several racks, which is what large models are seen to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.snapshot import Snapshot

NVLINK, PCIE, RACK, ACROSS = 600.0, 32.0, 25.0, 5.0
"""GB/s: within a host with and without NVLink, InfiniBand at 200 Gb/s in a rack, Ethernet at 40 Gb/s between racks."""
COMPUTE = 1 / RACK
NO_LINK, IN_HOST, IN_HOST_PCIE, IN_RACK, ACROSS_RACKS = "none", "nvlink", "pcie", "rack", "across"


@dataclass(frozen=True, slots=True)
class Speed:
    """``link`` is the slowest one of a placement, with its ``gigabytes`` a second (0: one rank, nothing to exchange).

    ``slowdown`` is how many times longer a step takes than where the gang would sit tightest.
    """

    link: str
    gigabytes: float
    slowdown: float


def speed(snapshot: Snapshot, nodes: Sequence[str], gpus: int) -> Speed:
    """What to expect of a gang of ``gpus`` on these nodes."""
    intents = [snapshot.nodes[name].intent for name in nodes if name in snapshot.nodes]
    known = [intent for intent in intents if intent is not None]
    if gpus == 1 or not known:
        return Speed(NO_LINK, 0.0, 1.0)
    largest = max(intent.gpus for intent in known)
    tightest = NVLINK if gpus <= largest else RACK if gpus <= _largest_rack(snapshot, known[0].gpu_type) else ACROSS
    if len(known) == 1:
        link, bandwidth = (IN_HOST, NVLINK) if known[0].nvlink else (IN_HOST_PCIE, PCIE)
    elif len({intent.rack for intent in known}) == 1:
        link, bandwidth = IN_RACK, RACK
    else:
        link, bandwidth = ACROSS_RACKS, ACROSS
    return Speed(link, bandwidth, _step(bandwidth) / _step(tightest))


def _largest_rack(snapshot: Snapshot, gpu_type: str) -> int:
    zones = snapshot.topology.by_type.get(gpu_type, ())
    return max((len(rack.nodes) * rack.pool.size for zone in zones for rack in zone.racks()), default=0)


def _step(bandwidth: float) -> float:
    return COMPUTE + 1 / bandwidth
