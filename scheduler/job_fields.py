"""The fields of a job request, declared once: their checks, their bounds, their defaults, their schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.core.types import Hint, NvLink, OnLoss
from scheduler.fields import (
    INVALID,
    REQUIRED,
    Choice,
    FieldError,
    Flag,
    ListOf,
    MapOf,
    Nullable,
    Number,
    Record,
    Text,
    Whole,
)


class Priority(StrEnum):
    """The priority classes; P0 is the highest and a granted right."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


class CheckpointSignal(StrEnum):
    """What a job's ranks may be sent to make them save: signals that the system itself has no use for."""

    USR2 = "SIGUSR2"
    USR1 = "SIGUSR1"
    HUP = "SIGHUP"
    INT = "SIGINT"
    WINCH = "SIGWINCH"


SET_BY_GANGWAY = frozenset(
    {
        *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
        *("GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
        *("CUDA_VISIBLE_DEVICES", "GANGWAY_JOB_ID", "GANGWAY_ATTEMPT", "GANGWAY_CHECKPOINT_PATH"),
        *("GANGWAY_RESUME_FROM", "GANGWAY_RACK", "GANGWAY_AZ", "GANGWAY_NODE", "GANGWAY_RUN_DIR"),
        *("GANGWAY_CHECKPOINT_SIGNAL", "GANGWAY_SCRATCH"),
    }
)
"""What every rank finds in its environment, whatever the job asks for."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment variables of a job: names as POSIX has them, none that Gangway sets itself."""

    variables: MapOf

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        found = self.variables.read(value, path, errors)
        taken = sorted(SET_BY_GANGWAY & found.keys()) if found is not INVALID else []
        errors.extend(
            FieldError(f"{path}.{name}", "is set by Gangway for each rank", "Leave it out.") for name in taken
        )
        return INVALID if taken else found

    def schema(self) -> dict[str, Any]:
        return self.variables.schema()


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, as they are executed: no shell in between. An argument may be empty."""

    words: ListOf

    def read(self, value: Any, path: str, errors: list[FieldError]) -> Any:
        found = self.words.read(value, path, errors)
        if found is not INVALID and not found[0].strip():
            errors.append(FieldError(f"{path}[0]", "names no program", "Put the program first."))
            return INVALID
        return found

    def schema(self) -> dict[str, Any]:
        return self.words.schema()


S3_PATH = Text(
    most=1100,
    pattern=r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\s\\]{0,1024}",
    wanted="an S3 address such as s3://bucket/prefix/",
)
EMAIL = Text(most=254, pattern=r"[^@\s]{1,64}@[^@\s]{1,189}", wanted="an e-mail address")
IMAGE = Text(most=512, pattern=r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*", wanted="an image reference such as host/name:tag")
ENV_NAME = Text(most=128, pattern=r"[A-Za-z_][A-Za-z0-9_]*", wanted="a name of letters, digits and _")

RESOURCES = Record(
    {
        "gpu_count": (Whole(1, 2**31 - 1, "GPUs; one rank each"), REQUIRED),
        "gpu_type": (Text(32), REQUIRED),
        "cpu_per_rank": (Whole(0, 1024, "cores"), 0),
        "memory_per_rank_gb": (Whole(0, 65_536, "GB"), 0),
        "scratch_disk_gb": (Whole(0, 1_048_576, "GB on each host"), 0),
        "nvlink": (Choice(NvLink), NvLink.ANY),
    }
)

ARRAY = Record({"count": (Whole(1, 500, "jobs"), REQUIRED), "throttle": (Nullable(Whole(1, 500, "jobs")), None)})
"""So many jobs alike, at most ``throttle`` of them with GPUs at a time."""

CHECKPOINT = Record(
    {
        "path": (S3_PATH, REQUIRED),
        "interval_minutes": (Number(0.1, 10_080, "minutes"), REQUIRED),
        "retain_last_n": (Whole(1, 1000, "checkpoints"), 3),
        "signal": (Choice(CheckpointSignal), CheckpointSignal.USR2),
    }
)

RESTART_POLICY = Record(
    {
        "on_preemption": (Choice(OnLoss), None),
        "on_node_failure": (Choice(OnLoss), None),
        "max_restarts": (Whole(0, 1000), 20),
        "may_be_moved": (Flag(), True),
    }
)

JOB = Record(
    {
        "name": (Text(128), REQUIRED),
        "team": (Text(64), REQUIRED),
        "owner": (EMAIL, None),
        "image": (IMAGE, REQUIRED),
        "command": (Command(ListOf(Text(8192, least=0, lines=True), 1, 256)), REQUIRED),
        "resources": (RESOURCES, REQUIRED),
        "topology_hint": (Choice(Hint), Hint.PREFER_SAME_RACK),
        "topology_wait_minutes": (Nullable(Number(0, 10_080, "minutes")), None),
        "array": (Nullable(ARRAY), None),
        "priority": (Choice(Priority), Priority.P2),
        "max_runtime_hours": (Number(0.01, 8784, "hours"), 24),
        "checkpoint": (Nullable(CHECKPOINT), None),
        "restart_policy": (RESTART_POLICY, RESTART_POLICY.read({}, "restart_policy", [])),
        "env": (Environment(MapOf(ENV_NAME, Text(8192, least=0, lines=True), 256)), {}),
    }
)
"""A job as it is submitted. Every restart policy that is not given follows from whether there is a checkpoint."""
