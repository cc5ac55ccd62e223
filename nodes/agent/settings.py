"""What an agent is told by its host's administrator: flags before the environment before a TOML file."""

from __future__ import annotations

import argparse
import socket
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodes.agent.xid import bus_of

PREFIX = "GANGWAY_AGENT_"
DEFAULT_FILE = Path("/etc/gangway/agent.toml")
DEFAULT_STATE = Path("/var/lib/gangway-agent")


class SettingsUnusable(Exception):
    """The settings are not those of an agent. The message names what is wrong and where."""


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A directory of the host that containers see."""

    source: str
    target: str
    read_only: bool = True


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the host is, where nobody can find out: what is given here counts, the rest is looked up."""

    name: str = ""
    az: str = ""
    rack: str = ""
    gpu_type: str = ""
    gpus: int | None = None
    gpu_uuids: tuple[str, ...] = ()
    gpu_buses: tuple[str, ...] = ()
    """The GPUs' PCI addresses, by index."""
    cpus: int | None = None
    memory_gb: int | None = None
    scratch_gb: int | None = None
    spot: str | None = None
    nvlink: bool | None = None
    address: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; the names are those of the file.

    ``executor``: ``process``, ``docker``, ``podman`` or ``simulated``. ``engine``: the container engine's program where
    it is not on the path by that name. ``pass_env``: names or patterns of the agent's own environment that ranks get.
    ``cgroups``: limits for ranks that are processes. ``scratch``: where ranks work, below the state directory if empty.
    ``provider``: whose notices are read, ``aws``, ``gcp``, ``azure`` or ``none``; that of a spot host if empty.
    ``metadata_url``: its metadata server's address, if it is not the usual one. ``resource``: the host's own name in
    Azure's events. ``kernel_log``: where the driver tells of GPU faults.
    """

    url: str = ""
    state: str = str(DEFAULT_STATE)
    join_token: str = ""
    join_token_file: str = ""
    ca_file: str = ""
    executor: str = "process"
    engine: str = ""
    scratch: str = ""
    cgroups: bool = True
    pass_env: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    provider: str = ""
    metadata_url: str = ""
    resource: str = ""
    kernel_log: str = "/dev/kmsg"
    node: Declared = Declared()

    @property
    def cloud(self) -> str | None:
        """The provider whose notices are to be read; None for none."""
        chosen = self.provider or self.node.spot or "none"
        return None if chosen == "none" else chosen

    @property
    def joining(self) -> str:
        """The join token.

        Raises:
            SettingsUnusable: its file cannot be read.
        """
        if self.join_token or not self.join_token_file:
            return self.join_token
        try:
            return Path(self.join_token_file).read_text().strip()
        except FileNotFoundError:
            return ""  # used up and removed: a node that has joined needs none
        except OSError as error:
            raise SettingsUnusable(f"join_token_file: cannot read {self.join_token_file}: {error.strerror}") from error


EXECUTORS = ("process", "docker", "podman", "simulated")

PROVIDERS = ("aws", "gcp", "azure")

_PLAIN = (
    "url",
    "state",
    "join_token",
    "join_token_file",
    "ca_file",
    "executor",
    "engine",
    "scratch",
    "provider",
    "metadata_url",
    "resource",
    "kernel_log",
)
_OF_THE_NODE = ("name", "az", "rack", "gpu_type", "gpus", "cpus", "memory_gb", "scratch_gb", "spot", "address")
_SECRET = ("join_token",)
"""Not by a flag: command lines can be read by every user of the host."""


def read(argv: Sequence[str] | None, environ: Mapping[str, str]) -> Settings:
    """The settings of this start.

    Raises:
        SettingsUnusable: they make no agent.
    """
    given = vars(_parser().parse_args(argv))
    file = given.pop("config") or environ.get(PREFIX + "CONFIG")
    raw = _file(Path(file)) if file else (_file(DEFAULT_FILE) if DEFAULT_FILE.exists() else {})
    node = raw.setdefault("node", {})
    if not isinstance(node, dict):
        raise SettingsUnusable("node: must be a table")
    for target, names, prefix in ((raw, _PLAIN, ""), (node, _OF_THE_NODE, "node_")):
        for name in names:
            told = given.get(prefix + name) or environ.get(PREFIX + (prefix + name).upper())
            if told:
                target[name] = told
    return _checked(raw)


def _checked(raw: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(raw, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsUnusable(str(error)) from error
    if not settings.url.startswith(("http://", "https://")):
        raise SettingsUnusable("url: give the portal's address, such as https://gangway.example.com")
    if settings.executor not in EXECUTORS:
        raise SettingsUnusable(f"executor: {settings.executor!r} is none of {', '.join(EXECUTORS)}")
    if settings.ca_file and not settings.url.startswith("https://"):
        raise SettingsUnusable("ca_file: is of no use with an address that is not https")
    if settings.cloud not in (None, *PROVIDERS):
        raise SettingsUnusable(f"provider: {settings.cloud!r} is none of {', '.join(PROVIDERS)}, none")
    for index, address in enumerate(settings.node.gpu_buses):
        if bus_of(address) is None:
            raise SettingsUnusable(f"node.gpu_buses[{index}]: {address!r} is no PCI address, such as 0000:10:1c.0")
    for name in ("az", "rack"):
        if not getattr(settings.node, name):
            raise SettingsUnusable(f"node.{name}: say where the host stands")
    return settings


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsUnusable(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsUnusable(f"{path}: {error}") from error


def host_name() -> str:
    """The host's own name, as a node's: lower case."""
    return socket.gethostname().lower()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nodes.agent",
        allow_abbrev=False,
        description="The agent of one GPU host: obeys the control plane and reports to it.",
        epilog=f"Each setting can also come from {PREFIX}<NAME>, or from the file; a flag wins. The join token has no "
        f"flag. See docs/operations.md.",
    )
    parser.add_argument("--config", metavar="FILE", help=f"a TOML file; default: {DEFAULT_FILE}, if it is there")
    for name in _PLAIN:
        if name not in _SECRET:
            parser.add_argument("--" + name.replace("_", "-"), dest=name, metavar=name.upper())
    for name in _OF_THE_NODE:
        parser.add_argument("--node-" + name.replace("_", "-"), dest="node_" + name, metavar=name.upper())
    return parser
