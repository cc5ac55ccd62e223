"""Jobs to start from: the shapes that most of what people submit has. Each holds the fields that it sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.types import Hint


@dataclass(frozen=True, slots=True)
class Starter:
    key: str
    label: str
    words: str
    fields: dict[str, str] = field(default_factory=dict)


STARTERS = (
    Starter(
        "debug",
        "Try something out",
        "1 GPU for an hour, starts soonest",
        {"gpu_count": "1", "max_runtime_hours": "1", "priority": "P2", "topology_hint": Hint.ANY.value},
    ),
    Starter(
        "finetune",
        "Fine-tune on one host",
        "8 GPUs over NVLink for 12 hours",
        {"gpu_count": "8", "max_runtime_hours": "12", "topology_hint": Hint.REQUIRE_SAME_HOST.value},
    ),
    Starter(
        "pretrain",
        "Train in one rack",
        "64 GPUs over InfiniBand for 3 days",
        {
            "gpu_count": "64",
            "max_runtime_hours": "72",
            "topology_hint": Hint.PREFER_SAME_RACK.value,
            "cpu_per_rank": "12",
            "memory_per_rank_gb": "192",
            "checkpoint_interval_minutes": "30",
        },
    ),
    Starter(
        "sweep",
        "Fill gaps",
        "1 GPU when there is room, stopped without regret",
        {"gpu_count": "1", "max_runtime_hours": "4", "priority": "P3", "topology_hint": Hint.ANY.value},
    ),
)


def starter(key: str) -> Starter | None:
    return next((one for one in STARTERS if one.key == key), None)
