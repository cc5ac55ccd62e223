"""The environment of a rank: torchrun's variables, Gangway's, the job's own, and little of the host's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from scheduler.core.types import Assignment

OF_THE_HOST = ("PATH", "LANG", "LC_*", "TZ")
"""What every rank gets of the host's environment; its settings may name more."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def chosen(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """The variables whose names match one of the patterns, such as ``AWS_*``."""
    wanted = tuple(patterns)
    return {name: value for name, value in environment.items() if any(fnmatchcase(name, one) for one in wanted)}


def of_the_host(environment: Mapping[str, str], more: Iterable[str]) -> dict[str, str]:
    """What processes may have of ``environment``: what all get, and ``more`` by names or patterns."""
    return {"PATH": DEFAULT_PATH, **chosen(environment, (*OF_THE_HOST, *more))}


def of_a_rank(assignment: Assignment, at: int, place: Mapping[str, str], scratch: Path, run: Path) -> dict[str, str]:
    """The variables of the rank at position ``at`` of the node's part. Those of the job replace the first two alone.

    ``place`` has the node's own: ``GANGWAY_NODE``, ``GANGWAY_RACK``, ``GANGWAY_AZ``.
    """
    spec, saves = assignment.spec, assignment.spec.checkpoint
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TMPDIR": str(scratch),
        **spec.launch.env,
        **_torchrun(assignment, at),
        **place,
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in assignment.gpus),
        "GANGWAY_JOB_ID": assignment.job,
        "GANGWAY_ATTEMPT": str(assignment.attempt),
        "GANGWAY_CHECKPOINT_PATH": saves.path if saves else "",
        "GANGWAY_CHECKPOINT_SIGNAL": saves.signal if saves else "",
        "GANGWAY_RESUME_FROM": assignment.resume_from,
        "GANGWAY_RUN_DIR": str(run),
        "GANGWAY_SCRATCH": str(scratch),
    }


def _torchrun(assignment: Assignment, at: int) -> dict[str, str]:
    """As torchrun sets them. It would pick GPUs by LOCAL_RANK out of CUDA_VISIBLE_DEVICES, and so do its programs."""
    return {
        "MASTER_ADDR": assignment.master_addr,
        "MASTER_PORT": str(assignment.master_port),
        "WORLD_SIZE": str(assignment.world_size),
        "RANK": str(assignment.ranks[at]),
        "LOCAL_RANK": str(at),
        "LOCAL_WORLD_SIZE": str(len(assignment.ranks)),
        "NODE_RANK": str(assignment.node_rank),
        "GROUP_RANK": str(assignment.node_rank),
        "TORCHELASTIC_RESTART_COUNT": str(assignment.attempt - 1),
        "TORCHELASTIC_MAX_RESTARTS": str(assignment.spec.max_restarts),
        "TORCHELASTIC_RUN_ID": assignment.job,
    }
