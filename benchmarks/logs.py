"""How fast ranks' logs are taken in, and how soon somebody who looks sees them.

    python -m benchmarks.logs [--hosts N] [--seconds S]

Starts the system with its own stores, binds a gang of eight ranks a host, and has the agents of its hosts hand in what
each of their ranks writes, all at once and again and again; beside it one reader follows rank 0 by socket and REST.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from benchmarks.table import Figure, show
from nodes.protocol import LOGS_PATH, LogPiece, LogsAnswer, LogsRequest, decode, encode
from tests.system import System, until

RANKS = 8
LINE = b"step 1234 loss 0.123456 tokens/s 98765 grad norm 0.4321\n"
POST_P99_MS, SEEN_P99_MS = 500.0, 1500.0


@dataclass
class Measured:
    posts_ms: list[float] = field(default_factory=list)
    seen_ms: list[float] = field(default_factory=list)
    bytes: int = 0
    refused: int = 0


def submit(system: System, hosts: int) -> tuple[str, list[str]]:
    """A gang on whole hosts that runs: its id, its nodes in the order of ranks."""
    with system.client("admin") as client:
        body = {
            "name": "logs",
            "team": system.people()["team"],
            "image": "registry.example.com/train:1",
            "command": ["python", "train.py"],
            "resources": {"gpu_count": RANKS * hosts, "gpu_type": "H100"},
            "topology_hint": "any",
        }
        job = str(client.post("/api/v1/jobs", json=body).json()["id"])
        until(lambda: client.get(f"/api/v1/jobs/{job}").json()["state"] == "RUNNING", 60)
        allocation = client.get(f"/api/v1/jobs/{job}").json()["allocation"]
        return job, [part["node"] for part in allocation]


async def hand_in(
    session: aiohttp.ClientSession, url: str, token: str, node: str, job: str, first: int, until_s: float, out: Measured
) -> None:
    """One host: every rank writes 20 lines a round, a round a second, as while somebody looks."""
    starts = [0] * RANKS
    while (begun := time.monotonic()) < until_s:
        text = LINE * 20 + (b"at %d\n" % time.time_ns() if first == 0 else b"")
        pieces = tuple(LogPiece(job, 1, first + at, starts[at], text) for at in range(RANKS))
        headers = {"Authorization": f"Bearer {token}"}
        async with session.post(url + LOGS_PATH, data=encode(LogsRequest(node, pieces)), headers=headers) as response:
            raw = await response.read()
        if response.status == 200:
            out.posts_ms.append(1000 * (time.monotonic() - begun))
            out.bytes += len(text) * RANKS
            starts = [taken.kept for taken in decode(LogsAnswer, raw).taken]
        else:
            out.refused += 1
        await asyncio.sleep(max(0.0, begun + 1.0 - time.monotonic()))


async def follow(session: aiohttp.ClientSession, system: System, job: str, until_s: float, out: Measured) -> None:
    """Somebody who looks at rank 0: what is new is read when the socket says so."""
    token = next(one["token"] for one in system.people()["users"] if one["role"] == "admin")
    headers = {"Authorization": f"Bearer {token}"}
    path = f"{system.url}/api/v1/jobs/{job}/logs"
    at = 0
    async with session.ws_connect(f"{system.url.replace('http', 'ws')}/ws/jobs/{job}/", headers=headers) as socket:
        while time.monotonic() < until_s:
            async with session.get(path, params={"rank": 0, "offset": at}, headers=headers) as response:
                if response.status == 200:
                    part = await response.json()
                    at = part["next_offset"]
                    now = time.time_ns()
                    written = [int(line[3:]) for line in part["text"].splitlines() if line.startswith("at ")]
                    out.seen_ms += [(now - ns) / 1e6 for ns in written[-1:]]
            await news(socket)


async def news(socket: Any) -> None:
    ends = time.monotonic() + 2
    while (left := ends - time.monotonic()) > 0:
        try:
            message = json.loads((await socket.receive(timeout=left)).data)
        except TimeoutError:
            return
        if message["type"] == "logged" and message["rank"] == 0:
            return


async def measure(system: System, job: str, nodes: list[str], seconds: float) -> Measured:
    tokens = json.loads((system.data / "fleet" / "agent.json").read_text())["nodes"]
    out = Measured()
    until_s = time.monotonic() + seconds
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session, asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(session, system, job, until_s, out))
        for at, node in enumerate(nodes):
            token = tokens[node]["token"]
            tasks.create_task(hand_in(session, system.url, token, node, job, RANKS * at, until_s, out))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast ranks' logs are taken in.")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gangway-logs-") as scratch:
        system = System(Path(scratch) / "data")
        try:
            system.start(within_s=300)
            job, nodes = submit(system, asked.hosts)
            out = asyncio.run(measure(system, job, nodes, asked.seconds))
            rss = system.children()["web"].memory_info().rss / 1e6
        finally:
            system.kill()
    figures = [
        Figure("requests of a host, p50", float(np.percentile(out.posts_ms, 50)), "ms"),
        Figure("requests of a host, p99", float(np.percentile(out.posts_ms, 99)), "ms", POST_P99_MS),
        Figure("written until seen, p50", float(np.percentile(out.seen_ms, 50)), "ms"),
        Figure("written until seen, p99", float(np.percentile(out.seen_ms, 99)), "ms", SEEN_P99_MS),
        Figure("logs of ranks a second", RANKS * len(out.posts_ms) / asked.seconds, "/s"),
        Figure("output taken", out.bytes / asked.seconds / 1e6, "MB/s"),
        Figure("requests sent away", float(out.refused), ""),
        Figure("memory of the web process", rss, "MB"),
    ]
    show(f"logs of {RANKS * asked.hosts} ranks on {asked.hosts} hosts", figures, asked.json)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
