"""The agent as a program: its parts put together, its files, and its end.

It ends without its ranks, which its next life takes up again. Exit status: 0 when asked to end, 1 where its settings
or its state are of no use, 3 where another agent has taken over this node.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import signal
import ssl
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import aiohttp
import structlog

from nodes.agent import keeper
from nodes.agent.agent import Agent, Executor
from nodes.agent.cgroups import delegated
from nodes.agent.client import Client, Rejected
from nodes.agent.containers import ContainerLauncher
from nodes.agent.duty import Duty
from nodes.agent.environment import chosen, of_the_host
from nodes.agent.executor import HostExecutor
from nodes.agent.fleet import TOKEN_BYTES, behaviour
from nodes.agent.inventory import Gpus, found, inventory
from nodes.agent.kmsg import KernelLog, booted_ms
from nodes.agent.launcher import Launcher
from nodes.agent.logs import Shipper
from nodes.agent.memory import Memory
from nodes.agent.notices import watch
from nodes.agent.nvml import Nvml, opened
from nodes.agent.outputs import Outputs
from nodes.agent.processes import ProcessLauncher
from nodes.agent.retired import Retired
from nodes.agent.settings import Settings, SettingsUnusable, read
from nodes.agent.simulated import SimulatedExecutor
from nodes.agent.state import State, StateUnusable
from nodes.agent.watchers import Kept, Watchers
from nodes.agent.xid import GpuHealth, bus_of
from nodes.protocol import Inventory, LogsAnswer, LogsRequest, boot_id
from scheduler import logs

log = structlog.get_logger(__name__)

UNUSABLE, REPLACED = 1, 3
LOCK_FILE = "agent.lock"
ENGINE_NEEDS = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_*", "CONTAINER*", "*_PROXY", "*_proxy")
"""What a container engine's command line gets of the agent's environment beyond what every rank gets."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; answers the exit status."""
    logs.configure()
    try:
        settings = read(argv, os.environ)
        program = Program.prepared(settings)
    except (SettingsUnusable, StateUnusable, OSError) as error:
        sys.stderr.write(f"agent: {error}\n")
        return UNUSABLE
    try:
        asyncio.run(program.run())
    except Rejected as rejected:
        log.error("the agent has ended", node=program.node.name, error=str(rejected))
        return REPLACED
    finally:
        program.close()
    return 0


@dataclass(slots=True)
class Program:
    """Everything that one life of an agent consists of."""

    settings: Settings
    node: Inventory
    state: State
    memory: Memory
    duty: Duty
    executor: Executor
    retired: Retired
    lock: int
    trust: ssl.SSLContext | bool
    nvml: Nvml | None

    @classmethod
    def prepared(cls, settings: Settings) -> Program:
        """
        Raises:
            SettingsUnusable, StateUnusable, OSError: an agent cannot be had from these.
        """
        trust = ssl.create_default_context(cafile=settings.ca_file) if settings.ca_file else True
        home = Path(settings.state).absolute()
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _only_one(home)
        scratch = Path(settings.scratch).absolute() if settings.scratch else home / "scratch"
        runs = home / "runs"
        for directory in (scratch, runs):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        nvml = opened()
        gpus = found(nvml)
        node = inventory(settings.node, gpus, scratch, settings.url)
        state = State(home, lambda: secrets.token_urlsafe(TOKEN_BYTES))
        state.begin([node.name])
        memory, retired = Memory(home), Retired(runs)
        if settings.executor == "simulated":
            executor: Executor = SimulatedExecutor(behaviour)
        else:
            executor = HostExecutor(runs, scratch, _launcher(settings, node, gpus, memory.lease_file), retired)
        return cls(settings, node, state, memory, memory.recall(), executor, retired, lock, trust, nvml)

    async def run(self) -> None:
        """Serve until a signal asks for the end.

        Raises:
            Rejected: another agent has taken over this node.
        """
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.trust)) as session:
            client = Client(session, self.settings.url)
            serving = asyncio.create_task(self._serve(client, session))
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()

    async def _serve(self, client: Client, metadata: aiohttp.ClientSession) -> None:
        membership = self.state.membership(self.node.name)

        async def send(request: LogsRequest) -> LogsAnswer:
            return await client.logs(request, membership.token)

        watchers = self._watchers()
        agent = Agent(
            inventory=self.node,
            membership=membership,
            boot_id=boot_id(self.state.generation, secrets.token_bytes(8)),
            join_token=self.settings.joining,
            client=client,
            executor=self.executor,
            now_ms=_now_ms,
            monotonic_ms=keeper.clock_ms,
            random=Random(self.node.name),
            duty=self.duty,
            keep=self._keep,
            host=watchers,
        )
        parts = [asyncio.create_task(agent.run()), asyncio.create_task(watchers.run())]
        if (provider := self.settings.cloud) is not None:
            url, resource = self.settings.metadata_url, self.settings.resource
            reading = watch(provider, metadata, watchers.board, _now_ms, url, agent.vacated, resource)
            parts.append(asyncio.create_task(reading.run()))
        if isinstance(self.executor, HostExecutor):
            shipper = Shipper(self.node.name, send, time.monotonic)
            parts.append(asyncio.create_task(Outputs(self.executor, self.retired, shipper).run()))
        await _until_one_ends(parts)

    def _watchers(self) -> Watchers:
        """What reads the host. Its GPUs are known by their addresses as declared, else as NVML tells them."""
        nvml, kept = self.nvml, Kept(Path(self.settings.state).absolute())
        told = kept.load()
        buses = [bus_of(address) or "" for address in self.settings.node.gpu_buses]
        if not buses and nvml is not None:
            buses = [device.bus for device in nvml.devices()]
        health = GpuHealth(
            {bus: index for index, bus in enumerate(buses)}, self.executor.holder, told.number, told.newest_ms
        )
        return Watchers(health, KernelLog(Path(self.settings.kernel_log), booted_ms()), kept, nvml, _now_ms)

    def _keep(self) -> None:
        """Write down what the agent must not forget. A disk that is full makes it forgetful, and ends nothing."""
        try:
            self.memory.keep(self.duty)
            self.state.save()
        except (OSError, StateUnusable) as error:
            log.error("the agent's state cannot be kept", error=str(error))

    def close(self) -> None:
        """Let go of the state directory; what is being removed is gone by then."""
        self.retired.close()
        os.close(self.lock)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _only_one(home: Path) -> int:
    """Hold the state directory for this process alone.

    Raises:
        StateUnusable: another agent holds it.
    """
    handle = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise StateUnusable(f"another agent runs with {home}") from error
    return handle


def _launcher(settings: Settings, node: Inventory, gpus: Gpus | None, lease: Path) -> Launcher:
    place = {"GANGWAY_NODE": node.name, "GANGWAY_RACK": node.rack, "GANGWAY_AZ": node.az}
    if settings.executor == "process":
        host = of_the_host(os.environ, settings.pass_env)
        return ProcessLauncher(host, place, lease, delegated() if settings.cgroups else None)
    return ContainerLauncher(
        engine=settings.engine or settings.executor,
        podman=settings.executor == "podman",
        host=of_the_host(os.environ, ENGINE_NEEDS),
        passed=chosen(os.environ, settings.pass_env),
        place=place,
        lease=lease,
        uuids=settings.node.gpu_uuids or (gpus.uuids if gpus else ()),
        mounts=settings.mounts,
    )


async def _until_one_ends(parts: Sequence[asyncio.Task[None]]) -> None:
    """None of them ends but by a failure, which ends the others and is raised."""
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
