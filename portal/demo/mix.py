"""The jobs of the demo's workload, drawn from what has been published about real ones. Pure: randomness is handed in.

Sizes lie between two published fleets: nearly all of Microsoft Philly's jobs ask for one GPU and the few of eight and
more use most GPU hours (Jeon et al., USENIX ATC 2019); in SenseTime's Helios whole-host and multi-host gangs are far
more frequent (Hu et al., SC 2021). Run times have a short median and a tail that holds most of the hours, as in both
of them and in Alibaba's PAI (Weng et al., NSDI 2022); here they are compressed from hours to tens of seconds. People
overestimate: a limit is a multiple of the run time, and a few underestimate and are stopped by it. No rank exits with
an error: three jobs that fail on a host within a day take it out of use, and a day of the demo is minutes long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

# GPUs of a job: how many of 1,000 jobs ask for them.
SIZES = {1: 580, 2: 120, 4: 100, 8: 140, 16: 35, 32: 18, 64: 7}
MEAN_GPUS = sum(gpus * weight for gpus, weight in SIZES.items()) / sum(SIZES.values())

MEDIAN_RUNTIME_S = 35.0
SIGMA = 0.95
"""Of the logarithm of run times: the mean is 1.57 medians, one job in a hundred runs for nine."""
LONGEST_RUNTIME_S = 600.0
MEAN_RUNTIME_S = MEDIAN_RUNTIME_S * math.exp(SIGMA**2 / 2)

# Priority classes of 100 jobs; P0 only where the team holds the right.
PRIORITIES = {"P0": 1, "P1": 14, "P2": 55, "P3": 30}
LIMIT_FACTORS = (1.5, 2.0, 3.0, 6.0)
TOO_SHORT, TOO_SHORT_FACTOR = 0.03, 0.8
"""How many limits are below the run time, and by how much."""
SHORTEST_LIMIT_HOURS = 0.02

# What teams of either organisation train, and how it is started.
WORK = {
    "research": (
        ("vit-ablation", "train.py"),
        ("lm-sweep", "sweep.py"),
        ("policy-rl", "rollout.py"),
        ("eval", "eval.py"),
    ),
    "production": (
        ("nightly-ranker", "fit.py"),
        ("asr-refresh", "train.py"),
        ("assistant-sft", "sft.py"),
        ("embed", "embed.py"),
    ),
}


def draw(
    random: Random, team: str, gpu_type: str, *, stretch: float, may_p0: bool, largest: int, number: int
) -> dict[str, Any]:
    """The body of one job for ``POST jobs``.

    Args:
        stretch: by how much run times are longer than the mix has them.
        largest: the most GPUs that a gang may ask for.
        number: makes the name its own.
    """
    gpus = min(_weighted(random, SIZES), largest)
    runtime_s = min(LONGEST_RUNTIME_S, random.lognormvariate(math.log(MEDIAN_RUNTIME_S), SIGMA)) * stretch
    factor = TOO_SHORT_FACTOR if random.random() < TOO_SHORT else random.choice(LIMIT_FACTORS)
    limit_h = max(SHORTEST_LIMIT_HOURS, runtime_s * factor / 3600)
    kind, script = random.choice(WORK[team.split("-")[0]])
    priority = _weighted(random, PRIORITIES)
    name = f"{kind}-{number}"
    body: dict[str, Any] = {
        "name": name,
        "team": team,
        "image": f"registry.example.com/{team}/{kind}:stable",
        "command": ["python", script, "--run", str(number)],
        "resources": {
            "gpu_count": gpus,
            "gpu_type": gpu_type,
            "cpu_per_rank": random.choice((4, 8, 12)),
            "memory_per_rank_gb": random.choice((32, 64, 128)),
            "scratch_disk_gb": random.choice((0, 100, 500)),
        },
        "topology_hint": _hint(random, gpus),
        "priority": "P2" if priority == "P0" and not may_p0 else priority,
        "max_runtime_hours": round(limit_h, 4),
        "restart_policy": {"max_restarts": 3},
        "env": {
            "GANGWAY_SIM_RUNTIME_S": f"{runtime_s:.1f}",
            "GANGWAY_SIM_START_S": f"{random.uniform(0.5, 3):.1f}",
        },
    }
    if gpus > 1 or random.random() < 0.6:
        body["checkpoint"] = {"path": f"s3://demo-checkpoints/{team}/{name}/", "interval_minutes": 0.5}
    return body


def share_out(random: Random, shares: Mapping[str, float]) -> str:
    """A team, as often as its share says."""
    return random.choices(list(shares), list(shares.values()))[0]


def _hint(random: Random, gpus: int) -> str:
    if gpus <= 8:
        return "prefer_same_host" if random.random() < 0.8 else "any"
    return random.choice(("prefer_same_rack", "prefer_same_rack", "require_same_rack"))


def _weighted(random: Random, weights: Mapping[Any, int]) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]
