"""The agents' interface under a whole fleet: how fast a sync is answered, how soon an order is there.

    python -m benchmarks.agents [--json FILE]     # a part of `make bench-e2e`

Starts the system without hosts, and in this process 1,250 agents that ask each five seconds and tell the readings of
their eight GPUs, as the agents of real hosts do; only what runs their ranks is simulated. First they only ask; then
jobs are submitted, bound and run to their end. A sync's time is what it took beyond the wait that the agent asked for.
When an order was committed is seen by a watch on the state store; it has arrived when the agent has read it. Exit
status 1 if a bound is broken, 2 if nothing was measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import msgspec
import psutil

from benchmarks.running import NotRun, as_person, running, web_process
from benchmarks.table import Figure, quantile, show
from benchmarks.watching import Watcher
from nodes.agent.client import Client
from nodes.agent.fleet import Fleet
from nodes.agent.hosts import FLEETS, hosts
from nodes.agent.limits import allow_many_files
from nodes.agent.state import State
from nodes.protocol import Inventory, SyncAnswer, SyncRequest

EVERY_S = 5.0
IDLE_S = 30.0
JOBS, RATE = 300, 10.0
SETTLE_S = 10.0
WATCH_S = 0.02
READY_WITHIN_S, BOUND_WITHIN_S = 240.0, 60.0
RUNTIME_S = 10
SIZES = (1, 2, 8, 8, 16, 32)
SYNC_P99_MS, ORDER_P99_MS = 100.0, 200.0


@dataclass
class Seen:
    """What was seen since it was last cleared. ``beyond_ms``: of each sync, beyond the wait that was asked for;
    ``own_ms``: how late this process itself was awake, which is part of every time here. ``bytes``: of the requests.
    ``orders``: when, by the monotonic clock in seconds, a node first read of a job."""

    beyond_ms: list[float] = field(default_factory=list)
    own_ms: list[float] = field(default_factory=list)
    bytes: int = 0
    orders: dict[tuple[str, str], float] = field(default_factory=dict)


class Timed(Client):
    """The agents' client, with a watch in its hand; it has them ask each ``EVERY_S``."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        super().__init__(session, url)
        self.seen = Seen()

    async def sync(self, request: SyncRequest, token: str, timeout_s: float) -> SyncAnswer:
        asked_s = time.monotonic()
        answer = await super().sync(request, token, timeout_s)
        now_s = time.monotonic()
        if answer.assignments is None:
            self.seen.beyond_ms.append(1000 * max(0.0, now_s - asked_s - request.wait_s))
        for order in answer.assignments or ():
            self.seen.orders.setdefault((order.job, request.node), now_s)
        return msgspec.structs.replace(answer, wait_s=EVERY_S)

    async def watch_itself(self) -> None:
        """Note how late a timer of this process fires: the machine is shared with whatever else runs on it."""
        while True:
            due_s = time.monotonic() + WATCH_S
            await asyncio.sleep(WATCH_S)
            self.seen.own_ms.append(1000 * (time.monotonic() - due_s))

    async def _post(self, path: str, body: bytes, token: str, timeout_s: float) -> bytes:
        self.seen.bytes += len(body)
        return await super()._post(path, body, token, timeout_s)


@dataclass
class Used:
    """What these processes have used since it was made, as shares of a core, and all cores of the machine together,
    whoever used them, as a share of what there is."""

    processes: tuple[psutil.Process, ...]
    before: list[float] = field(default_factory=list)
    began_s: float = 0.0

    def __post_init__(self) -> None:
        self.before, self.began_s = self._times(), time.monotonic()
        psutil.cpu_percent()

    def shares(self) -> list[float]:
        spent_s = time.monotonic() - self.began_s
        own = [100 * (now - then) / spent_s for now, then in zip(self._times(), self.before, strict=True)]
        return [*own, psutil.cpu_percent()]

    def _times(self) -> list[float]:
        return [sum(process.cpu_times()[:2]) for process in self.processes]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--fleet", choices=sorted(FLEETS), default="full")
    parser.add_argument("--idle", type=float, default=IDLE_S, help="seconds in which the agents only ask")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    asked = parser.parse_args()
    allow_many_files()
    try:
        with running(None, "off") as data:
            figures = asyncio.run(_measure(data, hosts(asked.fleet), asked.idle, asked.jobs))
    except NotRun as error:
        sys.stderr.write(f"agents: {error}\n")
        return 2
    show("agents", figures, asked.json)
    return 0 if all(figure.holds for figure in figures) else 1


async def _measure(data: Path, inventories: Sequence[Inventory], idle_s: float, jobs: int) -> list[Figure]:
    demo = json.loads((data / "demo.json").read_text())
    web = web_process(demo["url"])
    async with _fleet(demo["url"], data / "bench", inventories, _join_token(web, len(inventories))) as client:
        await _until_ready(demo, len(inventories))
        await asyncio.sleep(SETTLE_S)
        processes = (web, psutil.Process())
        client.seen, used = Seen(), Used(processes)
        await asyncio.sleep(idle_s)
        idle, (web_idle, own_idle, all_idle) = client.seen, used.shares()
        with Watcher(web.environ()["GANGWAY_ETCD_URL"]) as watcher:
            client.seen, used = Seen(), Used(processes)
            names = await _submitted(demo, jobs)
            await asyncio.to_thread(watcher.wait_for, names, BOUND_WITHIN_S)
            busy, (web_busy, own_busy, all_busy) = client.seen, used.shares()
    late = sorted(1000 * (at - watcher.bound[job]) for (job, _), at in busy.orders.items() if job in watcher.bound)
    resting, working = sorted(idle.beyond_ms), sorted(busy.beyond_ms)
    return [
        Figure("agents", len(inventories), ""),
        Figure("idle: syncs a second", len(resting) / idle_s, "/s"),
        Figure("idle: bytes of a sync", idle.bytes / max(1, len(resting)), "bytes"),
        Figure("idle: a sync, p50", quantile(resting, 0.50), "ms"),
        Figure("idle: a sync, p99", quantile(resting, 0.99), "ms", SYNC_P99_MS),
        Figure("idle: this process itself late, p99", quantile(sorted(idle.own_ms), 0.99), "ms"),
        Figure("idle: web process", web_idle, "% of a core"),
        Figure("idle: the agents", own_idle, "% of a core"),
        Figure("idle: the whole machine", all_idle, "%"),
        Figure("busy: jobs that never ran", len(names - watcher.running.keys()), "", 0.0),
        Figure("busy: syncs", len(working), ""),
        Figure("busy: a sync, p50", quantile(working, 0.50), "ms"),
        Figure("busy: a sync, p99", quantile(working, 0.99), "ms"),
        Figure("busy: this process itself late, p99", quantile(sorted(busy.own_ms), 0.99), "ms"),
        Figure("busy: orders", len(late), ""),
        Figure("busy: commit of an order to agent, p50", quantile(late, 0.50), "ms"),
        Figure("busy: commit of an order to agent, p99", quantile(late, 0.99), "ms", ORDER_P99_MS),
        Figure("busy: web process", web_busy, "% of a core"),
        Figure("busy: the agents", own_busy, "% of a core"),
        Figure("busy: the whole machine", all_busy, "%"),
        Figure("load of the machine", os.getloadavg()[0], ""),
    ]


# --- the fleet --------------------------------------------------------------------------------------------------


def _join_token(web: psutil.Process, uses: int) -> str:
    command = [sys.executable, "manage.py", "join_token", "--uses", str(uses)]
    return subprocess.run(command, env=web.environ(), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@asynccontextmanager
async def _fleet(url: str, home: Path, inventories: Sequence[Inventory], join_token: str) -> AsyncIterator[Timed]:
    """All agents at work, until the end of the block."""
    state = State(home, lambda: secrets.token_urlsafe(32))
    state.begin([inventory.name for inventory in inventories])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        client = Timed(session, url)
        fleet = Fleet(state, inventories, join_token, client)
        tasks = [asyncio.create_task(fleet.run()), asyncio.create_task(client.watch_itself())]
        try:
            yield client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _until_ready(demo: dict[str, Any], wanted: int) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    async with httpx.AsyncClient(base_url=demo["url"], headers=as_person(demo, "admin"), timeout=30) as http:
        while (found := (await http.get("/api/v1/cluster")).json()["hosts"].get("READY", 0)) < wanted:
            if time.monotonic() > until_s:
                raise NotRun(f"{found} of {wanted} hosts were ready within {READY_WITHIN_S:g} s")
            await asyncio.sleep(1)


# --- the jobs ---------------------------------------------------------------------------------------------------


async def _submitted(demo: dict[str, Any], jobs: int) -> set[str]:
    """Submit at a steady rate; answers the jobs' ids."""
    start_s = time.monotonic()
    names = set()
    async with httpx.AsyncClient(base_url=demo["url"], headers=as_person(demo, "researcher"), timeout=30) as http:
        for turn in range(jobs):
            await asyncio.sleep(max(0.0, start_s + turn / RATE - time.monotonic()))
            answer = await http.post("/api/v1/jobs", json=_job(demo["team"], turn))
            if answer.status_code != 201:
                raise NotRun(f"a job was not accepted: {answer.status_code} {answer.text}")
            names.add(str(answer.json()["id"]))
    return names


def _job(team: str, turn: int) -> dict[str, Any]:
    return {
        "name": f"bench-{turn}",
        "team": team,
        "image": "registry.example.com/bench:1",
        "command": ["python", "-m", "train"],
        "resources": {"gpu_count": SIZES[turn % len(SIZES)], "gpu_type": "H100"},
        "max_runtime_hours": 1,
        "env": {"GANGWAY_SIM_RUNTIME_S": str(RUNTIME_S)},
    }


if __name__ == "__main__":
    sys.exit(main())
