"""NVML's readings, from a library that stands in for it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.agent import nvml
from nodes.agent.inventory import found
from nodes.telemetry import GpuReading, Telemetry, problems


class NVMLError(Exception):
    pass


class Library:
    """Two GPUs; ``broken`` are those whose every call fails, ``recovery`` what field 230 says."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, broken: tuple[int, ...] = (), recovery: int = 0) -> None:
        self.broken = broken
        self.recovery = recovery
        self.open = False

    def nvmlInit(self) -> None:
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:10:1{handle}.0".encode())

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        self._lives(handle)
        return 1

    def _lives(self, handle: int) -> None:
        if handle in self.broken:
            raise NVMLError("GPU is lost")

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        self._lives(handle)
        return SimpleNamespace(used=3 << 20, free=5 << 20)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._lives(handle)
        return SimpleNamespace(gpu=97)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._lives(handle)
        return 654_321

    def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
        self._lives(handle)
        return (0, 0, 0, 1)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        self._lives(handle)
        return 61

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:
        self._lives(handle)
        assert fields == [230]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=self.recovery))]


def test_readings_are_those_of_dcgm_exporter() -> None:
    opened = nvml.Nvml(Library())
    first, second = opened.readings({0: 63})
    assert first == GpuReading(0, 97.0, 3.0, 5.0, 61, 654.321, 63, 1)
    assert second.xid is None
    assert list(problems(Telemetry(0, "nvml", (first, second)), 2)) == []


def test_a_gpu_that_fell_off_the_bus_reads_nothing_and_is_counted() -> None:
    opened = nvml.Nvml(Library(broken=(1,)))
    _, lost = opened.readings({})
    assert lost == GpuReading(1)
    assert opened.unread == 4 + 1
    assert opened.recoveries() == {0: 0}


def test_devices_have_their_uuid_and_their_place_on_the_bus() -> None:
    assert nvml.Nvml(Library()).devices() == [
        nvml.Device(0, "GPU-0", "0000:10:10", "NVIDIA H100 80GB HBM3"),
        nvml.Device(1, "GPU-1", "0000:10:11", "NVIDIA H100 80GB HBM3"),
    ]


def test_a_host_without_the_library_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.opened() is None


def test_a_host_without_a_driver_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driverless(Library):
        def nvmlInit(self) -> None:
            raise NVMLError("driver not loaded")

    monkeypatch.setitem(sys.modules, "pynvml", Driverless())  # type: ignore[arg-type]
    assert nvml.opened() is None


@pytest.mark.parametrize(
    ("telemetry", "field"),
    [
        pytest.param(Telemetry(-1), "at_ms", id="a time before time"),
        pytest.param(Telemetry(0, "guess"), "source", id="a source that is none"),
        pytest.param(Telemetry(0, "nvml", (GpuReading(8),)), "gpus[0].gpu", id="a GPU too many"),
        pytest.param(Telemetry(0, "nvml", (GpuReading(0), GpuReading(0))), "gpus", id="a GPU twice"),
        pytest.param(
            Telemetry(0, "nvml", (GpuReading(0, 101.0),)), "gpus[0].DCGM_FI_DEV_GPU_UTIL", id="more than all of it"
        ),
        pytest.param(Telemetry(0, unread={"x" * 65: 1}), "unread", id="a place without end"),
    ],
)
def test_what_no_host_reads_is_refused(telemetry: Telemetry, field: str) -> None:
    assert [name for name, _ in problems(telemetry, 8)] == [field]


def test_the_inventory_is_what_nvml_tells() -> None:
    gpus = found(nvml.Nvml(Library()))
    assert gpus is not None
    assert gpus.nvlink and len(gpus.uuids) == Library().nvmlDeviceGetCount()


def test_without_nvml_the_inventory_has_to_be_declared() -> None:
    assert found(None) is None
