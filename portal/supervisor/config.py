"""What a person chose for this run, read from GANGWAY_* once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portal.supervisor.checks import Unfit

BASE_DIR = Path(__file__).resolve().parent.parent.parent
STORES = ("postgres", "etcd", "redis", "s3")
FLEETS = {"small": 64, "full": 1250, "off": 0}
"""Hosts of the simulated fleet."""


@dataclass(frozen=True, slots=True)
class Config:
    """``urls`` holds the stores that are not to be started here."""

    data: Path
    port: int = 8000
    fleet: str = "small"
    workload: bool = True
    urls: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        return self.data / "log"

    @property
    def hosts(self) -> int:
        return FLEETS[self.fleet]


def read(environ: Mapping[str, str]) -> Config:
    """
    Raises:
        Unfit: a variable holds what it cannot hold.
    """
    return Config(
        data=Path(environ.get("GANGWAY_DATA") or BASE_DIR / ".gangway").expanduser().resolve(),
        port=_port(environ.get("GANGWAY_PORT") or "8000"),
        fleet=_one_of("GANGWAY_FLEET", environ.get("GANGWAY_FLEET") or "small", tuple(FLEETS)),
        workload=_one_of("GANGWAY_WORKLOAD", environ.get("GANGWAY_WORKLOAD") or "on", ("on", "off")) == "on",
        urls={store: url for store in STORES if (url := environ.get(f"GANGWAY_{store.upper()}_URL"))},
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise Unfit(f"GANGWAY_PORT is {text!r}: give a port from 1 to 65535")
    return int(text)


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise Unfit(f"{name} is {text!r}: give one of {', '.join(choices)}")
    return text
