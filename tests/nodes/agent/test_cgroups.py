"""Limits by cgroups, on a tree of plain files in the kernel's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.agent.cgroups import Cgroups, delegated

OFFERED = ("cpu.max", "memory.max", "memory.oom.group", "cgroup.procs")


def _tree(path: Path, own: str, controllers: str = "cpuset cpu memory pids") -> tuple[Path, Path]:
    """``/proc`` and the cgroup file system of a process in the cgroup ``own``."""
    proc, mounted = path / "proc", path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(f"1:name=systemd:/x\n0::{own}\n")
    group = mounted / own.strip("/")
    group.mkdir(parents=True)
    for name, content in (("cgroup.procs", "17\n18\n"), ("cgroup.controllers", controllers)):
        (group / name).write_text(content)
    (group / "cgroup.subtree_control").write_text("")
    (group / "agent").mkdir(exist_ok=True)
    (group / "agent" / "cgroup.procs").write_text("")
    return proc, mounted


def _group(root: Path, name: str) -> Path:
    """A cgroup with the files that the kernel would put in it."""
    group = root / name
    group.mkdir()
    for file in OFFERED:
        (group / file).write_text("")
    return group


def test_a_cgroup_that_was_handed_over_is_divided(tmp_path: Path) -> None:
    proc, mounted = _tree(tmp_path, "/system.slice/agent.service")
    found = delegated(proc, mounted)
    assert found is not None
    root = mounted / "system.slice" / "agent.service"
    assert (root / "agent" / "cgroup.procs").read_text() == "18", "one after the other, as the kernel wants it"
    assert (root / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_a_later_life_of_the_agent_divides_the_same_one(tmp_path: Path) -> None:
    proc, mounted = _tree(tmp_path, "/agent.service")
    (proc / "self" / "cgroup").write_text("0::/agent.service/agent\n")
    found = delegated(proc, mounted)
    assert found is not None and found._root == mounted / "agent.service"


@pytest.mark.parametrize("line", ["0::/\n", "1:name=systemd:/x\n", ""])
def test_the_hosts_own_root_is_left_alone(tmp_path: Path, line: str) -> None:
    proc, mounted = _tree(tmp_path, "/x")
    (proc / "self" / "cgroup").write_text(line)
    assert delegated(proc, mounted) is None


def test_one_that_is_not_ours_is_no_failure(tmp_path: Path) -> None:
    proc, mounted = _tree(tmp_path, "/x")
    (mounted / "x" / "cgroup.controllers").unlink()
    assert delegated(proc, mounted) is None


def test_the_limits_of_a_rank(tmp_path: Path) -> None:
    group = _group(tmp_path, "rank")
    assert Cgroups(tmp_path).make("rank", cpus=12, memory_gb=128) == group
    assert (group / "cpu.max").read_text() == "1200000 100000"
    assert (group / "memory.max").read_text() == "128000000000"
    assert (group / "memory.oom.group").read_text() == "1"


def test_no_limit_is_set_that_was_not_asked_for_or_is_not_offered(tmp_path: Path) -> None:
    group = _group(tmp_path, "rank")
    Cgroups(tmp_path).make("rank", cpus=0, memory_gb=0)
    Cgroups(tmp_path, {"cpu"}).make("rank", cpus=0, memory_gb=5)
    assert [(group / name).read_text() for name in OFFERED] == [""] * len(OFFERED)
