"""Object storage: nanio, a small S3 server from a wheel that keeps its objects as files. For evaluation."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from portal.supervisor.process import Program


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def program(data: Path, port: int, access_key: str, secret_key: str) -> Program:
    """nanio on the loopback port with one pair of keys."""
    data.mkdir(parents=True, exist_ok=True)
    return Program(
        name="s3",
        argv=(
            *(sys.executable, "-m", "nanio", "serve", "--host", "127.0.0.1", "--port", str(port)),
            *("--data-dir", str(data), "--workers", "1", "--no-access-log", "--log-level", "warning"),
        ),
        env={"NANIO_ACCESS_KEY": access_key, "NANIO_SECRET_KEY": secret_key},
        ready=lambda: listens(port),
    )


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
