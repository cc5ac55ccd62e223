"""A whole system to measure: one of its own in a scratch directory, or one that runs already."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

UP_WITHIN_S = 300.0


class NotRun(Exception):
    """The benchmark could not be done. The message is one line."""


@contextlib.contextmanager
def running(data: Path | None, fleet: str) -> Iterator[Path]:
    """The data directory of a system whose hosts are all ready."""
    if data is not None:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="gangway-bench-") as scratch:
        chosen = {"GANGWAY_DATA": scratch, "GANGWAY_PORT": str(_free_port())}
        chosen |= {"GANGWAY_FLEET": fleet, "GANGWAY_WORKLOAD": "off"}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANGWAY_")}
        up = subprocess.Popen([sys.executable, "manage.py", "up"], env=environment | chosen, stdout=subprocess.PIPE)
        try:
            _wait_until_up(up)
            yield Path(scratch)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(60)


def _wait_until_up(up: subprocess.Popen[bytes]) -> None:
    """Its output goes on with the address once everything is there."""
    assert up.stdout is not None
    timer = threading.Timer(UP_WITHIN_S, up.terminate)
    timer.start()
    for line in up.stdout:
        if b"http://127.0.0.1" in line:
            timer.cancel()
            threading.Thread(target=up.stdout.read, daemon=True).start()
            return
    timer.cancel()
    raise NotRun(f"the system did not come up; manage.py up ended with {up.wait()}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def web_process(url: str) -> psutil.Process:
    port = int(url.rpartition(":")[2])
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            return psutil.Process(connection.pid)
    raise NotRun(f"no process of this machine listens on {url}")


def as_person(demo: dict[str, Any], role: str) -> dict[str, str]:
    """The headers of the demo's person of that role."""
    token = next(user["token"] for user in demo["users"] if user["role"] == role)
    return {"Authorization": f"Bearer {token}"}
