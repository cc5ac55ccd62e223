"""A simulated fleet in one process: `python -m nodes.agent.fleet --url http://127.0.0.1:8000 --state DIR --size small`.

Every host is an agent of its own, with its own token, that speaks the real agent API; only what runs its ranks is
simulated. What a job's ranks do comes from its environment (see ``simulated.behaviour_from_environment``).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import aiohttp
import structlog

from nodes.agent.agent import Agent
from nodes.agent.client import Client, Rejected
from nodes.agent.hosts import FLEETS, hosts
from nodes.agent.limits import allow_many_files
from nodes.agent.simulated import Behaviour, SimulatedExecutor, behaviour_from_environment
from nodes.agent.simulated_host import SimulatedHost
from nodes.agent.state import State, StateUnusable
from nodes.protocol import Inventory, boot_id
from scheduler import logs
from scheduler.core.types import Assignment

log = structlog.get_logger(__name__)

STARTING_AT_ONCE = 16
"""Agents that register or make their first sync at the same time."""
SAVE_EVERY_S = 1.0
TOKEN_BYTES = 32
WRONG_ENVIRONMENT = Behaviour(runtime_ms=0, exit_code=2)
"""A rank that cannot read its own environment ends at once, as a program with a bad option does."""


class Fleet:
    """All agents of this process, and the one file in which they keep their memberships."""

    def __init__(self, state: State, inventories: Sequence[Inventory], join_token: str, client: Client) -> None:
        self._state = state
        self._starting = asyncio.Semaphore(STARTING_AT_ONCE)
        self._agents = [self._agent(inventory, join_token, client) for inventory in inventories]

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._save_for_ever())
            for agent in self._agents:
                tasks.create_task(self._serve(agent))

    async def _serve(self, agent: Agent) -> None:
        try:
            async with self._starting:
                await agent.join()
            await agent.run()
        except Rejected as rejected:
            log.error("an agent has ended", node=agent.node, error=str(rejected))

    async def _save_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            self.save()

    def save(self) -> None:
        """Keep who has registered. What is not kept only registers again after the next start."""
        try:
            self._state.save()
        except StateUnusable as error:
            log.error("the memberships are not kept", error=str(error))

    def _agent(self, inventory: Inventory, join_token: str, client: Client) -> Agent:
        executor = SimulatedExecutor(behaviour)
        return Agent(
            inventory=inventory,
            membership=self._state.membership(inventory.name),
            boot_id=boot_id(self._state.generation, secrets.token_bytes(8)),
            join_token=join_token,
            client=client,
            executor=executor,
            now_ms=_now_ms,
            monotonic_ms=_monotonic_ms,
            random=Random(inventory.name),
            host=SimulatedHost(inventory.name, inventory.gpus, executor, _now_ms),
        )


def behaviour(assignment: Assignment) -> Behaviour:
    """How the ranks of a simulated host behave: as the job's environment says."""
    try:
        return behaviour_from_environment(assignment.spec.launch.env)
    except (ValueError, OverflowError):
        return WRONG_ENVIRONMENT


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


async def _run(url: str, state: State, inventories: Sequence[Inventory], join_token: str) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        fleet = Fleet(state, inventories, join_token, Client(session, url))
        serving = asyncio.create_task(fleet.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        await asyncio.wait([serving])
        fleet.save()
        if not serving.cancelled():
            serving.result()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m nodes.agent.fleet", description="A simulated fleet of agents.")
    parser.add_argument("--url", required=True, help="the portal's address")
    parser.add_argument("--state", required=True, type=Path, help="directory of the state file")
    parser.add_argument("--size", choices=sorted(FLEETS), default="small", help="64 hosts or 1,250")
    parser.add_argument(
        "--join-token",
        default=os.environ.get("GANGWAY_JOIN_TOKEN", ""),
        help="lets new nodes join; default: GANGWAY_JOIN_TOKEN, which other users of the machine cannot see",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the fleet; the exit status is 0 after SIGTERM or Ctrl-C, 1 when its state is of no use."""
    arguments = _arguments(argv)
    logs.configure()
    allow_many_files()
    inventories = hosts(arguments.size)
    try:
        state = State(arguments.state, lambda: secrets.token_urlsafe(TOKEN_BYTES))
        state.begin([inventory.name for inventory in inventories])
    except StateUnusable as error:
        sys.stderr.write(f"fleet: {error}\n")
        return 1
    asyncio.run(_run(arguments.url, state, inventories, arguments.join_token))
    return 0


if __name__ == "__main__":
    sys.exit(main())
