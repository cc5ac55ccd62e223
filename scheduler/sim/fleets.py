"""The fleets that traces are run on: the one that the product is sized for, or one from a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from scheduler.core.types import NodeIntent, QuotaTree
from scheduler.sim.quota import Branch, Names, read_branches, tree, walk
from scheduler.sim.reading import Fields, NotAScenario
from scheduler.sim.scenario import Settings, read_fleet, read_settings

GPUS_A_HOST = 8

HOSTS_BY_RACK: Mapping[str, tuple[tuple[str, tuple[int, ...]], ...]] = {
    "az1": (("H100", (40,) * 9 + (39,) * 2), ("A100", (42, 42, 41)), ("L40S", (31, 31))),
    "az2": (("H100", (40,) * 8 + (39,) * 3), ("A100", (42, 42, 41)), ("L40S", (32, 31))),
}
"""10,000 GPUs: by zone, for each GPU type the hosts of its racks. Racks are numbered through a zone."""

TEAMS: Mapping[str, tuple[int, Mapping[str, tuple[int, Mapping[str, int]]]]] = {
    "research": (
        40,
        {
            "research-vision": (1, {"H100": 320}),
            "research-speech": (1, {"H100": 160}),
            "research-language": (1, {"H100": 320}),
            "research-robotics": (1, {"H100": 320, "A100": 80}),
            "research-foundation-models": (3, {"H100": 960}),
            "research-biology": (1, {"H100": 160, "A100": 80}),
        },
    ),
    "production": (
        60,
        {
            "production-ads": (1, {"H100": 960, "A100": 160}),
            "production-search": (1, {"H100": 960, "A100": 160}),
            "production-feed": (1, {"H100": 640}),
            "production-safety": (1, {"H100": 320, "L40S": 80}),
        },
    ),
}
"""By organisation its share, and by team its share and floor."""


@dataclass(frozen=True)
class Fleet:
    """Hosts, and a quota tree; without one every team exists."""

    hosts: tuple[NodeIntent, ...]
    quota: Mapping[str, Branch] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)

    def teams(self) -> frozenset[str]:
        """The names of the tree's leaves."""
        return frozenset(path[-1] for path, branch in walk(self.quota) if not branch.children)

    def tree(self) -> QuotaTree:
        if not self.quota:
            return QuotaTree(open=True)
        return tree(self.quota, Names.over({path for path, _ in walk(self.quota)}), 1)


def ten_thousand() -> Fleet:
    """The fleet of the design: 1,250 hosts in 32 racks of one GPU type each, and its two organisations."""
    hosts = []
    for az, types in HOSTS_BY_RACK.items():
        rack = 0
        for gpu_type, racks in types:
            for count in racks:
                rack += 1
                hosts += [
                    NodeIntent(f"{az}-r{rack}-h{n}", az, f"r{rack}", gpu_type, gpus=GPUS_A_HOST)
                    for n in range(1, count + 1)
                ]
    quota = {
        name: Branch({"share": Fraction(share)}, {team: _team(*fields) for team, fields in teams.items()})
        for name, (share, teams) in TEAMS.items()
    }
    return Fleet(tuple(hosts), quota)


def _team(share: int, floor: Mapping[str, int]) -> Branch:
    return Branch({"share": Fraction(share), "floor": dict(floor)})


def load_fleet(path: Path) -> Fleet:
    """A fleet from a file: YAML with ``fleet``, ``quota`` and ``settings`` as in a scenario, or openb's node list.

    Raises:
        NotAScenario: it is neither.
    """
    if path.suffix == ".csv":
        return _openb(path)
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise NotAScenario(str(path), "", " ".join(str(error).split())) from error
    fields = Fields(str(path), "", document)
    hosts = read_fleet(fields)
    quota = read_branches(fields.nested("quota")) if "quota" in fields else {}
    settings = read_settings(fields)
    fields.done()
    return Fleet(hosts, quota, settings)


def _openb(path: Path) -> Fleet:
    """Hosts of openb's ``sn, cpu_milli, memory_mib, gpu, model``; it names no racks, so all are in one."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise NotAScenario(str(path), "", str(error)) from error
    if not rows or not {"sn", "cpu_milli", "memory_mib", "gpu", "model"} <= rows[0].keys():
        raise NotAScenario(str(path), "", "is no list of nodes: sn, cpu_milli, memory_mib, gpu, model are its columns")
    hosts = tuple(
        NodeIntent(
            row["sn"],
            "az1",
            "r1",
            row["model"],
            gpus=int(row["gpu"]),
            cpus=int(row["cpu_milli"]) // 1000,
            memory_gb=int(row["memory_mib"]) // 1024,
        )
        for row in rows
        if int(row["gpu"]) > 0
    )
    return Fleet(hosts)
