"""Limits on ranks that are processes: a cgroup (version 2) for each, below the agent's own.

The agent's own cgroup must be handed to it (systemd: ``Delegate=yes``). As a cgroup with limits below it may not hold
processes itself, the agent moves into a part of its own first.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

OWN = "agent"
CONTROLLERS = ("cpu", "memory", "pids")
PERIOD_US = 100_000
GB = 1_000_000_000


class Cgroups:
    """Makes cgroups in the directory ``root``, with limits by those of the ``controllers`` that it offers."""

    def __init__(self, root: Path, controllers: Collection[str] = CONTROLLERS) -> None:
        self._root = root
        self._controllers = controllers

    def make(self, name: str, cpus: int, memory_gb: int) -> Path:
        """A cgroup with these limits, 0 for none. Made again, it is the same.

        Raises:
            OSError: it cannot be made, or limited.
        """
        group = self._root / name
        group.mkdir(exist_ok=True)
        if cpus and "cpu" in self._controllers:
            _set(group / "cpu.max", f"{cpus * PERIOD_US} {PERIOD_US}")
        if memory_gb and "memory" in self._controllers:
            _set(group / "memory.max", str(memory_gb * GB))
            _set(group / "memory.oom.group", "1")
        return group


def delegated(proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")) -> Cgroups | None:
    """The cgroups that this process may make; None where it may not. The host's root cgroup is left alone."""
    try:
        found = _own(proc / "self" / "cgroup")
        if found in ("", "/"):
            log.info("ranks run without cgroups: this process has none of its own")
            return None
        return _take_over(mounted / found.lstrip("/"))
    except OSError as error:
        log.info("ranks run without cgroups", error=str(error))
        return None


def _own(file: Path) -> str:
    """The path of the process in the hierarchy of version 2, empty where there is none."""
    for line in file.read_text().splitlines():
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            return path
    return ""


def _take_over(root: Path) -> Cgroups:
    """
    Raises:
        OSError: the cgroup is not ours to divide.
    """
    if root.name == OWN:  # a former life of the agent has moved, and this one was started in its place
        root = root.parent
    own = root / OWN
    own.mkdir(exist_ok=True)
    for pid in (root / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):  # it has ended since
            _set(own / "cgroup.procs", pid)
    offered = set(CONTROLLERS).intersection((root / "cgroup.controllers").read_text().split())
    _set(root / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(offered)))
    return Cgroups(root, offered)


def _set(file: Path, value: str) -> None:
    # Opened as it is: a file that the kernel does not offer must not be made.
    with file.open("r+") as opened:
        opened.write(value)
