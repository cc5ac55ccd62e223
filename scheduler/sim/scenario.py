"""A scenario: a small cluster, a quota tree, timed events, and what must come of them. The format is read whole here.

Raises ``NotAScenario`` for anything that is not in the format: file, place and reason in one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scheduler.core.types import NodeIntent, Policy
from scheduler.sim.event_reading import EventReader
from scheduler.sim.events import Timed
from scheduler.sim.expectations import Expectation, Known, read_expectations
from scheduler.sim.quota import Branch, Names, read_branches
from scheduler.sim.reading import (
    Fields,
    NotAScenario,
    at_least,
    duration,
    flag,
    fraction,
    moment,
    one_of,
    text,
)


@dataclass(frozen=True)
class Settings:
    """The settings of a run: the planner's, the leader's lease and the length of a tick, in milliseconds."""

    policy: Policy = field(default_factory=Policy)
    lease_ms: int = 15_000
    tick_ms: int = 1_000
    written: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Quota:
    """The tree at the start, and the names of its nodes over the whole run. Without nodes every team exists."""

    branches: Mapping[str, Branch] = field(default_factory=dict)
    names: Names = field(default_factory=Names)

    @property
    def open(self) -> bool:
        return not self.branches


@dataclass(frozen=True)
class Scenario:
    file: str
    title: str
    start_ms: int
    settings: Settings
    hosts: tuple[NodeIntent, ...]
    quota: Quota
    events: tuple[Timed, ...]
    expectations: tuple[Expectation, ...]
    jobs: tuple[str, ...]
    """Every job that the file submits, the elements of arrays one by one."""


def load(path: Path) -> Scenario:
    """The scenario in a file, YAML or JSON.

    Raises:
        NotAScenario: it is none.
    """
    file = str(path)
    try:
        document = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotAScenario(file, "", f"cannot be read: {error}") from error
    try:
        value = json.loads(document) if path.suffix == ".json" else yaml.load(document, Loader=_StrictLoader)  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        raise NotAScenario(file, "", f"is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return read(file, value)


class _StrictLoader(yaml.CSafeLoader):
    """YAML in which a key stands once in its mapping."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if isinstance(key, str) and keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice[0]!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read(file: str, value: Any) -> Scenario:
    """The scenario that a document says.

    Raises:
        NotAScenario: it is none.
    """

    fields = Fields(file, "", value)
    title = fields.take("title", text, "")
    start_ms = fields.take("start", moment, 0)
    settings = read_settings(fields)
    hosts = read_fleet(fields)
    branches = read_branches(fields.nested("quota")) if fields.written.get("quota") is not None else {}
    fields.take("quota", lambda _: None, None)
    events = EventReader(fields.rows("events"), start_ms, hosts, branches)
    timed = events.read()
    known = Known(
        hosts=frozenset(host.name for host in hosts), jobs=events.jobs, arrays=events.arrays, team=events.team
    )
    expectations = read_expectations(fields.rows("expect"), known)
    fields.done()
    quota = Quota(branches, events.names)
    return Scenario(file, title, start_ms, settings, hosts, quota, timed, expectations, events.jobs)


def _repair(value: Any) -> str:
    """``true`` and ``false`` are how scenarios say ``auto`` and ``off``."""
    if isinstance(value, bool):
        return "auto" if value else "off"
    return str(one_of(("off", "propose", "auto"))(value))


_POLICY: dict[str, tuple[str, Any]] = {
    "grace": ("grace_ms", duration),
    "start_timeout": ("start_timeout_ms", duration),
    "heartbeat_timeout": ("heartbeat_timeout_ms", duration),
    "kill_timeout": ("kill_timeout_ms", duration),
    "min_runtime": ("min_runtime_ms", duration),
    "backfill": ("backfill", flag),
    "repair": ("repair", _repair),
    "repair_every": ("repair_every_ms", duration),
    "length_weight": ("length_weight", fraction),
    "reservation_after": ("reservation_after_ms", duration),
    "quarantine_after": ("quarantine_after", at_least(1)),
}


def read_settings(fields: Fields) -> Settings:
    """The key ``settings`` of a document; every setting has a default."""
    if "settings" not in fields:
        return Settings()
    inner = fields.nested("settings")
    lease_ms = inner.take("lease", duration, 15_000)
    tick_ms = inner.take("tick", duration, 1_000)
    if tick_ms == 0:
        inner.refuse("should be longer than 0s", "tick")
    policy: dict[str, Any] = {name: inner.take(key, read) for key, (name, read) in _POLICY.items() if key in inner}
    inner.done()
    return Settings(Policy(**policy), lease_ms, tick_ms, inner.written)


def read_fleet(fields: Fields) -> tuple[NodeIntent, ...]:
    """The key ``fleet``: every host. A second line of one prefix goes on with its numbering."""
    hosts: list[NodeIntent] = []
    numbered: dict[str, int] = {}
    names: set[str] = set()
    if "fleet" not in fields:
        fields.refuse("'fleet' is missing")
    for line in fields.rows("fleet"):
        for host in _read_hosts(line, numbered):
            if host.name in names:
                line.refuse(f"a second host is called {host.name}")
            names.add(host.name)
            hosts.append(host)
    return tuple(hosts)


def _read_hosts(line: Fields, numbered: dict[str, int]) -> list[NodeIntent]:
    az, rack = line.take("az", text), line.take("rack", text)
    count = line.take("hosts", at_least(1))
    prefix = line.take("name", text, f"{az}-{rack}-h")
    gpu_type = line.take("gpu_type", text)
    if gpu_type == "any":
        line.refuse("a host has one type", "gpu_type")
    equipment: dict[str, Any] = {
        "gpus": line.take("gpus", at_least(1), 8),
        "cpus": line.take("cpus", at_least(0), 128),
        "memory_gb": line.take("memory_gb", at_least(0), 2048),
        "scratch_gb": line.take("scratch_gb", at_least(0), 8000),
        "spot": line.take("spot", one_of(("aws", "gcp", "azure")), None),
        "nvlink": line.take("nvlink", flag, True),
    }
    line.done()
    first = numbered.get(prefix, 0) + 1
    numbered[prefix] = first + count - 1
    return [NodeIntent(f"{prefix}{n}", az, rack, gpu_type, **equipment) for n in range(first, first + count)]
