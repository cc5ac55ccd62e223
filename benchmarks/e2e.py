"""The whole system under load: how soon a job is bound, and what the agents' syncs cost. `make bench-e2e`

Starts `manage.py up` with the full fleet and no workload in a scratch directory (or takes a system that runs already,
by `--data`), waits until its 1,250 hosts are READY, measures the web process while the agents only sync, then has four
clients submit 1,000 jobs at 20 a second in all. When a job was bound, and when an agent first spoke of it, is seen by a
watch on the state store itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx
import psutil

from benchmarks.running import NotRun, as_person, running, web_process
from benchmarks.table import Figure, quantile, show
from benchmarks.watching import Watcher

CLIENTS, JOBS, RATE = 4, 1_000, 20.0
IDLE_S = 30.0
SETTLE_S = 10.0
"""How long the fleet is left alone before it is measured: its registrations are still being recorded."""
BOUND_WITHIN_S = 60.0
RUNTIME_S = 30
SIZES = (1, 1, 1, 1, 1, 2, 4, 8, 8, 16)
"""GPUs of the jobs, in equal parts: half of one GPU, as in the published traces, and one in ten of several hosts."""


def main() -> int:
    arguments = _arguments()
    try:
        with running(arguments.data, arguments.fleet) as data:
            figures = _measure(data, arguments.jobs, arguments.rate, arguments.idle)
    except NotRun as error:
        sys.stderr.write(f"bench-e2e: {error}\n")
        return 2
    show("e2e", figures, arguments.json)
    return 0 if all(figure.holds for figure in figures) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.e2e", description=__doc__)
    parser.add_argument("--data", type=Path, help="GANGWAY_DATA of a system that runs already, instead of a new one")
    parser.add_argument("--fleet", choices=("small", "full"), default="full")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--rate", type=float, default=RATE, help="submissions a second, of all clients together")
    parser.add_argument("--idle", type=float, default=IDLE_S, help="seconds of measuring the idle syncs")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    return parser.parse_args()


# --- measuring --------------------------------------------------------------------------------------------------


def _measure(data: Path, jobs: int, rate: float, idle_s: float) -> list[Figure]:
    demo = json.loads((data / "demo.json").read_text())
    web = web_process(demo["url"])
    time.sleep(SETTLE_S)
    hosts = _ready_hosts(demo)
    idle_share = _cpu_share(web, idle_s)
    with Watcher(web.environ()["GANGWAY_ETCD_URL"]) as watcher:
        before_s, began_s = sum(web.cpu_times()[:2]), time.monotonic()
        posted = _submit(demo, jobs, rate)
        busy_share = (sum(web.cpu_times()[:2]) - before_s) / (time.monotonic() - began_s)
        watcher.wait_for(posted.keys(), BOUND_WITHIN_S)
        bound = sorted(1000 * (watcher.bound[job] - at) for job, at in posted.items() if job in watcher.bound)
        heard = sorted(1000 * (at - watcher.bound[job]) for job, at in watcher.heard.items() if job in watcher.bound)
        running = sorted(1000 * (watcher.running[job] - at) for job, at in posted.items() if job in watcher.running)
    return [
        Figure("hosts READY", hosts, "", None),
        Figure("idle syncs, web process", 100 * idle_share, "% of a core", 40.0),
        Figure("jobs accepted", len(posted), "", None),
        Figure("jobs not bound within a minute", len(posted) - len(bound), "", 0.0),
        Figure("submit to bound, p50", quantile(bound, 0.50), "ms", 150.0),
        Figure("submit to bound, p90", quantile(bound, 0.90), "ms", None),
        Figure("submit to bound, p99", quantile(bound, 0.99), "ms", 600.0),
        Figure("bound to first word of its agent, p50", quantile(heard, 0.50), "ms", None),
        Figure("bound to first word of its agent, p99", quantile(heard, 0.99), "ms", None),
        Figure("submit to RUNNING, p50", quantile(running, 0.50), "ms", None),
        Figure("submit to RUNNING, p99", quantile(running, 0.99), "ms", None),
        Figure("web process while submitting", 100 * busy_share, "% of a core", None),
    ]


def _ready_hosts(demo: dict[str, Any]) -> int:
    answer = httpx.get(demo["url"] + "/api/v1/cluster", headers=as_person(demo, "admin"), timeout=30)
    answer.raise_for_status()
    return int(answer.json()["hosts"].get("READY", 0))


def _cpu_share(process: psutil.Process, seconds: float) -> float:
    """The share of one core that the process uses over so many seconds."""
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float((sum(process.cpu_times()[:2]) - before) / seconds)


# --- submitting -------------------------------------------------------------------------------------------------


def _submit(demo: dict[str, Any], jobs: int, rate: float) -> dict[str, float]:
    """Submit at a steady rate, whatever the answers take; answers each accepted job with the time its POST began."""
    posted: dict[str, float] = {}
    failed: list[str] = []
    start_s = time.monotonic()

    def client(number: int) -> None:
        random = Random(number)
        with httpx.Client(base_url=demo["url"], headers=as_person(demo, "researcher"), timeout=30) as http:
            for turn in range(number, jobs, CLIENTS):
                time.sleep(max(0.0, start_s + turn / rate - time.monotonic()))
                began_s = time.monotonic()
                answer = http.post("/api/v1/jobs", json=_job(demo, turn, random))
                if answer.status_code == 201:
                    posted[answer.json()["id"]] = began_s
                else:
                    failed.append(f"{answer.status_code} {answer.text}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed or len(posted) != jobs:
        raise NotRun(f"{jobs - len(posted)} of {jobs} jobs were not accepted; the first answer: {failed[:1]}")
    return posted


def _job(demo: dict[str, Any], turn: int, random: Random) -> dict[str, Any]:
    return {
        "name": f"bench-{turn}",
        "team": demo["team"],
        "image": "registry.example.com/bench:1",
        "command": ["python", "-m", "train"],
        "resources": {"gpu_count": random.choice(SIZES), "gpu_type": "H100"},
        "priority": "P2",
        "max_runtime_hours": 1,
        "env": {"GANGWAY_SIM_RUNTIME_S": str(RUNTIME_S)},
    }


if __name__ == "__main__":
    sys.exit(main())
