"""Reading traces of real workloads: which jobs came when, how large, for how long. The columns tell the format."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodes.agent.simulated import Behaviour
from scheduler.core.types import ANY_GPU_TYPE, CheckpointSpec, JobSpec
from scheduler.sim.jobs import PRIORITIES

HOUR_MS = 3_600_000
LIMITS_MS = tuple(hours * HOUR_MS for hours in (1, 4, 12, 24, 72, 168, 720))
"""Limits that people ask for; a job of a trace without limits gets the first that its run time fits."""
CHECKPOINT = CheckpointSpec(every_ms=HOUR_MS // 2, takes_ms=20_000)

Row = Mapping[str, str]


class NotATrace(Exception):
    """The file is no trace: which line, and why."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of a trace. ``spec.submitted_ms`` counts from the start of the trace."""

    spec: JobSpec
    behaviour: Behaviour


def load(path: Path) -> list[Arrival]:
    """The jobs of a trace in the order in which they came; rows that ask for no GPU are left out.

    Raises:
        NotATrace: the file cannot be read, its columns are those of no known format, or a value is bad.
    """
    arrivals: list[Arrival] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            read = _reader(path, frozenset(rows.fieldnames or ()))
            for number, row in enumerate(rows, start=2):
                try:
                    arrivals += read(row)
                except (ValueError, KeyError, TypeError) as error:
                    raise NotATrace(f"{path}: line {number}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotATrace(f"{path}: cannot be read: {error}") from error
    arrivals.sort(key=lambda arrival: arrival.spec.submitted_ms)
    return arrivals


def _reader(path: Path, columns: frozenset[str]) -> Callable[[Row], Iterator[Arrival]]:
    for needed, read in _FORMATS:
        if needed <= columns:
            return read
    known = "; ".join(", ".join(sorted(needed)) for needed, _ in _FORMATS)
    raise NotATrace(f"{path}: no known trace has the columns {', '.join(sorted(columns))}. Known ones have: {known}")


def _arrival(name: str, submit_s: str, gpus: int, duration_s: float, **spec: object) -> Iterator[Arrival]:
    if gpus <= 0:
        return
    runtime_ms = round(duration_s * 1000)
    if runtime_ms < 0:
        raise ValueError(f"a run time of {duration_s} s")
    fields: dict[str, object] = {
        "gpu_type": ANY_GPU_TYPE,
        "priority": 2,
        "max_runtime_ms": next((limit for limit in LIMITS_MS if limit > runtime_ms), runtime_ms + HOUR_MS),
        "checkpoint": CHECKPOINT,
        "name": name,
        **spec,
    }
    yield Arrival(
        JobSpec(id=name, gpus=gpus, submitted_ms=round(float(submit_s) * 1000), **fields),  # type: ignore[arg-type]
        Behaviour(runtime_ms=runtime_ms),
    )


def _with_limits(row: Row) -> Iterator[Arrival]:
    """``job_id, submit_s, gpus, gpu_type, duration_s, max_runtime_s, team, user, priority``."""
    return _arrival(
        row["job_id"],
        row["submit_s"],
        int(row["gpus"]),
        float(row["duration_s"]),
        gpu_type=row["gpu_type"],
        max_runtime_ms=round(float(row["max_runtime_s"]) * 1000),
        team=row["team"],
        owner=row["user"],
        priority=PRIORITIES.index(row["priority"]),
    )


def _by_tenant(row: Row) -> Iterator[Arrival]:
    """``job_id, submit_s, gpus, nodes, gpus_per_node, duration_s, tenant, user, status``: Philly and Helios."""
    return _arrival(
        row["job_id"],
        row["submit_s"],
        int(row["gpus"]),
        float(row["duration_s"]),
        team=row["tenant"] or "everyone",
        owner=row["user"],
    )


def _openb(row: Row) -> Iterator[Arrival]:
    """openb's pods: processors and memory, whole and fractional GPUs. A part of a GPU takes a whole one here."""
    gpus = int(row["num_gpu"])
    kinds = [kind for kind in row["gpu_spec"].split("|") if kind]
    return _arrival(
        row["name"],
        row["creation_time"],
        gpus,
        float(row["deletion_time"]) - float(row["scheduled_time"] or row["creation_time"]),
        team=row["qos"] or "everyone",
        gpu_type=kinds[0] if len(kinds) == 1 else ANY_GPU_TYPE,
        cpu_per_rank=int(row["cpu_milli"]) // 1000 // max(1, gpus),
        memory_per_rank_gb=int(row["memory_mib"]) // 1024 // max(1, gpus),
    )


_FORMATS: tuple[tuple[frozenset[str], Callable[[Row], Iterator[Arrival]]], ...] = (
    (frozenset({"job_id", "submit_s", "gpus", "gpu_type", "duration_s", "max_runtime_s", "team"}), _with_limits),
    (frozenset({"job_id", "submit_s", "gpus", "duration_s", "tenant"}), _by_tenant),
    (frozenset({"name", "num_gpu", "gpu_spec", "creation_time", "deletion_time"}), _openb),
)
