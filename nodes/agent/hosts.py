"""The hosts of the simulated fleets: data in code, the same in every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nodes.protocol import Inventory


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack of equal hosts."""

    az: str
    name: str
    gpu_type: str
    hosts: int
    spot: str | None = None

    def inventories(self) -> Iterator[Inventory]:
        for number in range(1, self.hosts + 1):
            yield Inventory(
                name=f"{self.az}-{self.name}-h{number:02d}",
                az=self.az,
                rack=self.name,
                gpu_type=self.gpu_type,
                spot=self.spot,
            )


def _small() -> Iterator[Rack]:
    """64 hosts in 6 racks: 44 H100, 12 A100, 8 L40S; the smallest fleet on which a gang of 64 has a rack to choose."""
    yield Rack("az1", "r1", "H100", 16)
    yield Rack("az1", "r2", "H100", 12)
    yield Rack("az1", "r3", "A100", 12)
    yield Rack("az2", "r4", "H100", 12)
    yield Rack("az2", "r5", "L40S", 8)
    yield Rack("az2", "r6", "H100", 4, spot="aws")


def _full() -> Iterator[Rack]:
    """1,250 hosts in 32 racks, half of them in each of two AZs: 875 H100, 250 A100, 125 L40S.

    The last H100 rack of each AZ is spot hosts, of AWS in one and of GCP in the other.
    """
    for az, h100, l40s, spot in (("az1", (40,) * 9 + (39,) * 2, (31, 31), "aws"), ("az2", _H100_AZ2, (32, 31), "gcp")):
        racks = [*(("H100", size) for size in h100), *(("A100", size) for size in (42, 42, 41))]
        racks += [("L40S", size) for size in l40s]
        for number, (gpu_type, size) in enumerate(racks, start=1):
            yield Rack(az, f"r{number:02d}", gpu_type, size, spot if number == len(h100) else None)


_H100_AZ2 = (40,) * 8 + (39,) * 3

FLEETS = {"small": _small, "full": _full}


def hosts(size: str) -> list[Inventory]:
    """Every host of the fleet of this size, by rack.

    Raises:
        KeyError: there is no such size.
    """
    return [inventory for rack in FLEETS[size]() for inventory in rack.inventories()]
