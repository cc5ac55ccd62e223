"""What the host is made of: what its administrator declares, and else what NVML and the kernel say."""

from __future__ import annotations

import os
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from nodes.agent.nvml import Nvml
from nodes.agent.settings import Declared, SettingsUnusable, host_name
from nodes.protocol import Inventory

log = structlog.get_logger(__name__)

GB = 1_000_000_000
_MODEL = re.compile(r"\b([A-Z]{1,3}\d{1,4}[A-Z]{0,2})\b")
"""What NVIDIA calls a model of GPU, inside of names such as "NVIDIA H100 80GB HBM3" and "Tesla V100-SXM2-16GB"."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The host's GPUs in the order of their PCI addresses."""

    gpu_type: str
    uuids: tuple[str, ...]
    nvlink: bool


def found(nvml: Nvml | None) -> Gpus | None:
    """The GPUs as NVML tells them; None where there is no NVML, or no GPU."""
    devices = nvml.devices() if nvml is not None else []
    if nvml is None or not devices:
        return None
    return Gpus(model(devices[0].name), tuple(device.uuid for device in devices), nvml.has_nvlink())


def model(name: str) -> str:
    """The short name of a GPU's model: "H100" of "NVIDIA H100 80GB HBM3"."""
    found = _MODEL.search(name)
    return found[1] if found else re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]


def inventory(declared: Declared, gpus: Gpus | None, scratch: Path, url: str) -> Inventory:
    """The host's inventory. ``scratch`` is where its ranks work, ``url`` the control plane's address.

    Raises:
        SettingsUnusable: neither the settings nor the host say what GPUs there are.
    """
    gpu_type = declared.gpu_type or (gpus.gpu_type if gpus else "")
    count = len(gpus.uuids) if gpus and declared.gpus is None else declared.gpus
    if not gpu_type or not count:
        raise SettingsUnusable("node.gpu_type, node.gpus: NVML finds no GPU here; declare them")
    return Inventory(
        name=declared.name or host_name(),
        az=declared.az,
        rack=declared.rack,
        gpu_type=gpu_type,
        gpus=count,
        cpus=declared.cpus or os.cpu_count() or 1,
        memory_gb=declared.memory_gb or _memory_gb(),
        scratch_gb=shutil.disk_usage(scratch).total // GB if declared.scratch_gb is None else declared.scratch_gb,
        spot=declared.spot or None,
        nvlink=(gpus is None or gpus.nvlink) if declared.nvlink is None else declared.nvlink,
        address=declared.address or address_towards(url),
    )


def address_towards(url: str) -> str:
    """The address of this host's that the control plane would see; empty where it cannot be told.

    Nothing is sent: a datagram socket is only asked which way it would send.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        family, kind, *_, target = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asking:
            asking.connect(target)
            return str(asking.getsockname()[0])
    except OSError as error:
        log.warning("this host's address cannot be told", error=str(error))
        return ""


def _memory_gb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return max(1, int(rest.split()[0]) * 1024 // GB)
    return 1
