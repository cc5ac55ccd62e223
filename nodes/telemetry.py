"""What a host's GPUs read at the moment: told with a sync, kept for a while, never committed, hung on by no decision.

The fields are called as dcgm-exporter calls its metrics, in JSON and for people who know them from there. The garbage
collector is not told of readings: there are thousands a second, and none refers to what refers back.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

MAX_PLACES = 16


class GpuReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One GPU. What is not known is None. ``xid`` is the newest that the driver told of it, ``row_remap_failure`` 1
    where a broken row of memory could not be replaced."""

    gpu: int
    utilisation: float | None = msgspec.field(default=None, name="DCGM_FI_DEV_GPU_UTIL")
    memory_used_mib: float | None = msgspec.field(default=None, name="DCGM_FI_DEV_FB_USED")
    memory_free_mib: float | None = msgspec.field(default=None, name="DCGM_FI_DEV_FB_FREE")
    temperature_c: float | None = msgspec.field(default=None, name="DCGM_FI_DEV_GPU_TEMP")
    power_w: float | None = msgspec.field(default=None, name="DCGM_FI_DEV_POWER_USAGE")
    xid: int | None = msgspec.field(default=None, name="DCGM_FI_DEV_XID_ERRORS")
    row_remap_failure: int | None = msgspec.field(default=None, name="DCGM_FI_DEV_ROW_REMAP_FAILURE")


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A host's readings at ``at_ms``. ``source`` is where they come from: ``nvml``, ``simulated``, or ``none`` where
    the host has nothing to read. ``unread`` counts, by place, what the agent tried to read in vain: metadata servers,
    the kernel's log, GPUs."""

    at_ms: int
    source: str = "none"
    gpus: tuple[GpuReading, ...] = ()
    unread: dict[str, int] = {}


BOUNDS = {
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_DEV_FB_USED": 16_777_216.0,
    "DCGM_FI_DEV_FB_FREE": 16_777_216.0,
    "DCGM_FI_DEV_GPU_TEMP": 1_000.0,
    "DCGM_FI_DEV_POWER_USAGE": 100_000.0,
    "DCGM_FI_DEV_XID_ERRORS": 65_535,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1,
}
"""The most that each reading may be; the least is 0."""
SOURCES = ("nvml", "simulated", "none")


def problems(telemetry: Telemetry, gpus: int) -> Iterator[tuple[str, str]]:
    """Everything, by field, that a host with so many GPUs cannot have read."""
    if telemetry.source not in SOURCES:
        yield "source", f"must be one of {', '.join(SOURCES)}"
    if not 0 <= telemetry.at_ms < 1 << 53:
        yield "at_ms", "must be milliseconds since 1970"
    if len({reading.gpu for reading in telemetry.gpus}) != len(telemetry.gpus):
        yield "gpus", "must name a GPU once"
    places = telemetry.unread.items()
    if len(places) > MAX_PLACES or any(len(place) > 64 or count < 0 for place, count in places):
        yield "unread", f"must be at most {MAX_PLACES} places with how often each was not read"
    for index, reading in enumerate(telemetry.gpus):
        if not 0 <= reading.gpu < gpus:
            yield f"gpus[{index}].gpu", f"must be an index below {gpus}, the GPUs of this node"
        for name, value in msgspec.to_builtins(reading).items():
            if name in BOUNDS and not 0 <= value <= BOUNDS[name]:
                yield f"gpus[{index}].{name}", f"must be from 0 to {BOUNDS[name]:g}"
