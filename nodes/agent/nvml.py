"""GPUs by NVIDIA's management library, where the host has it: what they are, what they read, what they need.

``nvidia-ml-py`` is optional: without it, or without a driver, a host reads nothing and its inventory is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import structlog

from nodes.agent.xid import bus_of
from nodes.telemetry import GpuReading

log = structlog.get_logger(__name__)

RECOVERY_FIELD = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU: its UUID by which containers get it, and its address on the bus."""

    index: int
    uuid: str
    bus: str
    name: str


class Nvml:
    """NVML, opened. ``library`` is the module ``pynvml`` or one like it. ``unread`` counts the readings that failed."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        self._handles = {index: library.nvmlDeviceGetHandleByIndex(index) for index in range(count)}
        self.unread = 0

    def close(self) -> None:
        self._library.nvmlShutdown()

    def devices(self) -> list[Device]:
        """The GPUs of the host, by index."""
        library = self._library
        found = []
        for index, handle in self._handles.items():
            pci = _text(library.nvmlDeviceGetPciInfo(handle).busId)
            uuid, name = _text(library.nvmlDeviceGetUUID(handle)), _text(library.nvmlDeviceGetName(handle))
            found.append(Device(index, uuid, bus_of(pci) or pci, name))
        return found

    def has_nvlink(self) -> bool:
        """Whether the GPUs are linked with each other."""
        return bool(self._asked(self._library.nvmlDeviceGetNvLinkState, self._handles[0], 0))

    def readings(self, last_xid: dict[int, int]) -> tuple[GpuReading, ...]:
        """What each GPU reads now; one that fell off the bus reads nothing."""
        return tuple(self._reading(index, handle, last_xid.get(index)) for index, handle in self._handles.items())

    def recoveries(self) -> dict[int, int]:
        """What each GPU needs by its driver's word, for those of which it says so."""
        return {index: found for index in self._handles if (found := self._recovery(index)) is not None}

    def _reading(self, index: int, handle: Any, xid: int | None) -> GpuReading:
        library = self._library
        memory = self._asked(library.nvmlDeviceGetMemoryInfo, handle)
        rates = self._asked(library.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = self._asked(library.nvmlDeviceGetPowerUsage, handle)
        rows = self._asked(library.nvmlDeviceGetRemappedRows, handle)
        return GpuReading(
            gpu=index,
            utilisation=None if rates is None else float(rates.gpu),
            memory_used_mib=None if memory is None else memory.used / MIB,
            memory_free_mib=None if memory is None else memory.free / MIB,
            temperature_c=self._asked(library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / 1000,
            xid=xid,
            row_remap_failure=None if rows is None else int(bool(rows[3])),
        )

    def _recovery(self, index: int) -> int | None:
        values = self._asked(self._library.nvmlDeviceGetFieldValues, self._handles[index], [RECOVERY_FIELD])
        if not values or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)

    def _asked(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, None where this GPU or driver has none. Many an older driver lacks one of them for good."""
        try:
            return ask(*arguments)
        except self._library.NVMLError:
            self.unread += 1
            return None


def opened() -> Nvml | None:
    """NVML, None where the host has none."""
    try:
        library = import_module("pynvml")
    except ImportError:
        return None
    try:
        return Nvml(library)
    except library.NVMLError as error:
        log.warning("NVML is installed and does not open: the GPUs are not read", error=str(error))
        return None


def _text(value: str | bytes) -> str:
    """NVML's older bindings answer bytes."""
    return value.decode() if isinstance(value, bytes) else value
