"""The whole system in a directory of its own, as `make run` starts it, for tests that drive it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from portal.supervisor.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
GIVEN = ("GANGWAY_", "DJANGO_SETTINGS_MODULE", "AWS_")
"""What a system of its own must not inherit from the test session."""


def environment(data: Path, **chosen: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(GIVEN)}
    return {**inherited, "GANGWAY_DATA": str(data), **chosen}


@dataclass(slots=True)
class System:
    """``data`` keeps everything, so that a second ``start`` goes on from the first."""

    data: Path
    chosen: dict[str, str] = field(default_factory=lambda: {"GANGWAY_WORKLOAD": "off"})
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return (self.data.parent / "up.log").read_text()

    def start(self, within_s: float = 120.0) -> None:
        """Return when everything runs and the fleet has registered."""
        self.data.mkdir(parents=True, exist_ok=True)
        env = environment(self.data, GANGWAY_PORT=str(self.port), **self.chosen)
        with (self.data.parent / "up.log").open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"], cwd=ROOT, env=env, stdout=sink, stderr=subprocess.STDOUT
            )
        until(self._told_where_it_is, within_s, lambda: self.output)

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 40.0) -> int:
        """The exit status of an orderly end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """End it in any case; the kernel ends its children."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def people(self) -> dict[str, Any]:
        return dict(json.loads((self.data / "demo.json").read_text()))

    def client(self, role: str) -> httpx.Client:
        """A client that speaks as the demo's person of that role."""
        token = next(person["token"] for person in self.people()["users"] if person["role"] == role)
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=15)

    def children(self) -> dict[str, psutil.Process]:
        """The programs that the supervisor runs now, by name."""
        assert self.process is not None
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it has ended between the two looks
                found[_name(child)] = child
        return found

    def _told_where_it_is(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output
        return "Ctrl-C stops everything" in self.output


def until(condition: Callable[[], bool], within_s: float, why: Callable[[], str] = str) -> None:
    """Look until ``condition()`` holds; fail with ``why()`` if it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {why()}"
        time.sleep(0.05)


def _name(process: psutil.Process) -> str:
    words = process.cmdline()
    for mark, name in PROGRAMS.items():
        if any(mark in word for word in words):
            return name
    return " ".join(words)  # none, while it ends


PROGRAMS = {
    "bin/postgres": "postgres",
    "etcd": "etcd",
    "redis-server": "redis",
    "nanio": "s3",
    "uvicorn": "web",
    "scheduler@%h": "worker-scheduler",
    "recording@%h": "worker-recording",
    "default@%h": "worker-default",
    "previews@%h": "worker-previews",
    "eta@%h": "worker-eta",
    "beat": "beat",
    "nodes.agent.fleet": "fleet",
    "portal.demo.workload": "workload",
}
