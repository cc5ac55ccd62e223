"""Random clusters, jobs and mishaps: whatever happens, no invariant breaks, no log is wrong, all comes to rest."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.sim.log_file import without_chatter
from scheduler.sim.run import run
from scheduler.sim.scenario import read

MINUTE = 60


def random_scenario(seed: int) -> dict[str, Any]:
    """A cluster of a few racks, two dozen jobs and a dozen mishaps, all within three hours."""
    rng = random.Random(seed)
    fleet: list[dict[str, Any]] = [
        {
            "az": rng.choice(["az1", "az2"]),
            "rack": f"r{n}",
            "hosts": rng.randint(1, 4),
            "gpus": rng.choice([2, 4, 8]),
            "gpu_type": rng.choice(["H100", "H100", "A100"]),
            "name": f"x{n}-",
            **({"spot": rng.choice(["aws", "gcp"])} if rng.random() < 0.2 else {}),
        }
        for n in range(rng.randint(1, 4))
    ]
    hosts = [(f"{line['name']}{n}", line["gpus"]) for line in fleet for n in range(1, int(line["hosts"]) + 1)]
    gpus = sum(count for _, count in hosts)
    jobs = [f"j{n}" for n in range(rng.randint(4, 24))]
    events = [_submit(rng, job, gpus) for job in jobs]
    tree = rng.choice([_TREE, {name: {"share": rng.randint(0, 3), "floor": {"H100": 4}} for name in "abc"}])
    events += [_mishap(rng, jobs, hosts, tree) for _ in range(rng.randint(0, 14))]
    return {
        "title": f"random {seed}",
        "settings": rng.choice([{}, {"repair": True, "repair_every": "60s"}, {"backfill": False}, {"grace": "30s"}]),
        "fleet": fleet,
        "quota": tree,
        "events": events,
        "expect": [{"at": "30h", "stops_at_most": 10_000}],
    }


_TREE = {
    "x": {"share": 2, "ceiling": {"H100": 24}, "children": {"a": {"floor": {"H100": 4}}, "b": {"min_runtime": "5m"}}},
    "y": {"share": 1, "floor": {"H100": 4}, "children": {"c": {"reclaim": "floor"}}},
}


def _at(rng: random.Random) -> str:
    return f"{rng.randint(0, 180 * MINUTE)}s"


def _submit(rng: random.Random, job: str, gpus: int) -> dict[str, Any]:
    runtime = rng.choice([0, 1, 30, 600, 1800, 7200])
    wanted: dict[str, Any] = {
        "job": job,
        "team": rng.choice("abc"),
        "gpus": rng.choice([1, 1, 2, 3, 4, 8, 8, 16, max(1, gpus // 2)]),
        "gpu_type": rng.choice(["H100", "H100", "A100", "any"]),
        "priority": rng.choice(["P0", "P1", "P2", "P2", "P2", "P3"]),
        "runtime": f"{runtime}s",
        "max_runtime": f"{rng.choice([runtime + 60, 3600, 10_800])}s",
        "hint": rng.choice(["any", "prefer_same_rack", "require_same_rack", "prefer_same_host", "require_same_host"]),
        "start_takes": rng.choice(["0s", "0s", "20s", "700s"]),
        "exit_code": rng.choice([0, 0, 0, 1]),
        "max_restarts": rng.choice([0, 1, 3]),
        "on_preemption": rng.choice(["resume_from_checkpoint", "restart", "fail"]),
        "on_node_failure": rng.choice(["resume_from_checkpoint", "restart", "fail"]),
    }
    checkpoint = rng.choice([None, {"every": "5m", "takes": "20s"}, {"every": "1m", "takes": "150s"}, "default"])
    if checkpoint != "default":
        wanted["checkpoint"] = checkpoint
    if rng.random() < 0.15 and job != "j0":
        wanted["after"] = [f"j{rng.randrange(int(job[1:]))}"]
    return {"at": _at(rng), "submit": wanted}


def _mishap(rng: random.Random, jobs: list[str], hosts: list[tuple[str, int]], tree: dict[str, Any]) -> dict[str, Any]:
    job = rng.choice(jobs)
    host, gpus = rng.choice(hosts)
    gpu = {"host": host, "gpu": rng.randrange(gpus)}
    begin = rng.randint(0, 240)
    kinds: list[dict[str, Any]] = [
        {"cancel": job},
        {"hold": job},
        {"release": job},
        {"node_down": host},
        {"node_up": host},
        {"node_back": host},
        {"cordon": host},
        {"uncordon": host},
        {"drain": host},
        {"maintenance": {"hosts": [host], "start": f"{begin}m", "end": f"{begin + 30}m"}},
        {"reserve": {"name": f"r{begin}", "team": "a", "gpus": 2, "start": f"{begin}m", "end": f"{begin + 45}m"}},
        {"gpu_fault": gpu},
        {"gpu_ok": gpu},
        {"spot_notice": {"host": host, "seconds": rng.choice([0, 30, 120])}},
        {"rank_exit": {"job": job, "rank": 0, "code": rng.choice([0, 1])}},
        {"stall": {"job": job, "what": rng.choice(["start", "checkpoint", "stop"])}},
        {"quota": {next(iter(tree)): {"ceiling": {"H100": rng.choice([2, 8, 64])}}}},
        {"leader_crash": {"down": rng.choice(["1s", "5s", "40s"])}},
        {"store_down": {"for": rng.choice(["5s", "60s", "10m"])}},
        {"report": {"job": job, "attempt": 1, "rank": 0, "state": rng.choice(["RUNNING", "FAILED", "SUCCEEDED"])}},
    ]
    return {"at": _at(rng), **rng.choice(kinds)}


@pytest.mark.parametrize("seed", range(24))
def test_nothing_breaks_whatever_happens(seed: int):
    with without_chatter():
        result = run(read("random.yaml", random_scenario(seed)))
    assert result.invariants == ()
    assert result.failed == ()
