"""What an agent reads of its host beside its ranks, kept ready for a sync: notices, the kernel's log, NVML."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from nodes.agent.kmsg import KernelLog, LogUnreadable, machine_boot
from nodes.agent.notices.board import Board
from nodes.agent.nvml import Nvml
from nodes.agent.observed import Observed
from nodes.agent.xid import GpuHealth
from nodes.telemetry import GpuReading, Telemetry

log = structlog.get_logger(__name__)

LOG_EVERY_S = 0.5
NVML_EVERY_S = 5.0
SLOW_S = 30.0
"""How long after a failure the kernel's log is tried again."""
FILE = "kmsg.json"


class _Read(msgspec.Struct):
    """How far the log of one boot of the machine has been told."""

    boot: str = ""
    number: int = -1
    newest_ms: int = 0


class Kept:
    """The file in which it is kept how far the kernel's log has been told."""

    def __init__(self, state: Path) -> None:
        self._file = state / FILE
        self._written: _Read | None = None

    def load(self) -> _Read:
        """What was told in this boot of the machine; nothing, if the file is of another or none."""
        boot = machine_boot()
        try:
            read = msgspec.json.decode(self._file.read_bytes(), type=_Read)
        except (OSError, msgspec.MsgspecError):
            # Then the log is told again from its beginning: the leader knows what it has been told by its moments.
            read = _Read()
        return read if read.boot == boot else _Read(boot)

    def save(self, number: int, newest_ms: int) -> None:
        """Raises OSError."""
        read = _Read(machine_boot(), number, newest_ms)
        if read == self._written:
            return
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(read))
        fresh.replace(self._file)
        self._written = read


class Watchers:
    """The host of one agent. ``board`` has the notices of its provider."""

    def __init__(
        self, health: GpuHealth, kernel_log: KernelLog, kept: Kept, nvml: Nvml | None, now_ms: Callable[[], int]
    ) -> None:
        self.board = Board(self._say)
        self._health = health
        self._log = kernel_log
        self._kept = kept
        self._nvml = nvml
        self._now_ms = now_ms
        self._changed: Callable[[], object] = lambda: None
        self._unread: Counter[str] = Counter()
        self._readings: tuple[GpuReading, ...] = ()

    def listen(self, changed: Callable[[], object]) -> None:
        """Have ``changed`` called whenever a report would say something else than before."""
        self._changed = changed

    def _say(self) -> None:
        self._changed()

    def observed(self) -> Observed:
        """What stands now. A GPU's fault that asks for the host's restart stands beside the provider's notices."""
        health = self._health
        notices = (*self.board.current, *health.notices)
        return Observed(health.faulty, self.board.gone_at_ms, notices, health.faults)

    def telemetry(self) -> Telemetry:
        """The newest readings."""
        unread = {**self.board.errors, **self._unread}
        if self._nvml is not None and self._nvml.unread:
            unread["nvml"] = self._nvml.unread
        if self._nvml is None:
            # What the kernel's log tells is known without a library.
            told = tuple(GpuReading(gpu, xid=xid) for gpu, xid in sorted(self._health.last.items()))
            return Telemetry(self._now_ms(), "none", self._readings or told, unread)
        return Telemetry(self._now_ms(), "nvml", self._readings, unread)

    async def run(self) -> None:
        """Read for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_log())
            if self._nvml is not None:
                tasks.create_task(self._follow_gpus(self._nvml))

    async def _follow_log(self) -> None:
        while True:
            await asyncio.sleep(LOG_EVERY_S if self.read_log() else SLOW_S)

    def read_log(self) -> bool:
        """Take in what the kernel's log has new; False if it cannot be read now."""
        try:
            records = self._log.read()
        except LogUnreadable as error:
            self._unread["kernel log"] += 1
            if self._unread["kernel log"] == 1:
                log.warning("the kernel's log is not read: GPU faults are not seen", error=str(error))
            return False
        if sum([self._health.take(record) for record in records]):
            self._keep()
            self._changed()
        return True

    def _keep(self) -> None:
        try:
            self._kept.save(self._health.told_up_to, self._health.newest_ms)
        except OSError as error:
            self._unread["state"] += 1
            log.warning("how far the kernel's log was read is not kept", error=error.strerror)

    async def _follow_gpus(self, nvml: Nvml) -> None:
        while True:
            # A GPU that hangs keeps its driver busy for seconds: not in the loop that speaks with the control plane.
            self.take_readings(*await asyncio.to_thread(_asked, nvml, dict(self._health.last)))
            await asyncio.sleep(NVML_EVERY_S)

    def take_readings(self, readings: tuple[GpuReading, ...], recoveries: Mapping[int, int]) -> None:
        """Take in what the GPUs read, and what their driver says that they need."""
        self._readings = readings
        now = self._now_ms()
        if sum([self._health.hear_recovery(gpu, action, now) for gpu, action in recoveries.items()]):
            self._changed()


def _asked(nvml: Nvml, last_xid: dict[int, int]) -> tuple[tuple[GpuReading, ...], dict[int, int]]:
    return nvml.readings(last_xid), nvml.recoveries()
