"""The readings of a simulated host's GPUs: what GPUs of that kind would read that work, or do not."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from nodes.agent.observed import NoHost
from nodes.agent.simulated import SimulatedExecutor
from nodes.telemetry import GpuReading, Telemetry
from scheduler.core.types import RankState

MEMORY_MIB = 81_559.0
"""Of an H100 with 80 GB."""
PERIOD_MS = 10_000
"""A reading stays the same for so long."""


class SimulatedHost(NoHost):
    """A host whose GPUs read what its simulated ranks give them to do; nothing else ever befalls it."""

    def __init__(self, name: str, gpus: int, executor: SimulatedExecutor, now_ms: Callable[[], int]) -> None:
        self._name = name
        self._gpus = gpus
        self._executor = executor
        self._now_ms = now_ms

    def telemetry(self) -> Telemetry:
        now = self._now_ms()
        states = self._executor.gpu_states()
        readings = (self._reading(gpu, states.get(gpu), now) for gpu in range(self._gpus))
        return Telemetry(now, "simulated", tuple(readings))

    def _reading(self, gpu: int, state: RankState | None, now_ms: int) -> GpuReading:
        # The same for the same host, GPU and time, so that nothing here needs randomness of its own.
        wobble = crc32(f"{self._name} {gpu} {now_ms // PERIOD_MS}".encode()) % 9
        if state is RankState.RUNNING:
            used = MEMORY_MIB * (0.84 + wobble / 100)
            return GpuReading(
                gpu, 91.0 + wobble, round(used), round(MEMORY_MIB - used), 61.0 + wobble, 590.0 + 9 * wobble
            )
        used = 0.0 if state is None else 1_800.0
        return GpuReading(gpu, 0.0, used, MEMORY_MIB - used, 33.0 + wobble / 3, 68.0 + wobble)
