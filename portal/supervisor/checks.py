"""What must hold before anything is started. Each check returns, or raises one line that says what to do."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import redis

from portal.supervisor.ports import is_free

LEAST_FREE_BYTES = 1024**3
TIMEOUT_S = 3


class Unfit(Exception):
    """The system cannot run here as asked. The message is one line for a person."""


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def python_version(version: tuple[int, ...]) -> None:
    if version < (3, 11):
        raise Unfit(f"Gangway needs Python 3.11 or later; this is {version[0]}.{version[1]}")


def port(number: int) -> None:
    if not is_free(number):
        raise Unfit(f"port {number} on 127.0.0.1 is taken: stop what listens there, or set GANGWAY_PORT to another")


def directory(path: Path, free_bytes: Callable[[Path], int] = _free_bytes) -> None:
    """Make ``path`` if it is missing; it must take files and have a gigabyte of room."""
    probe = path / ".writable"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise Unfit(f"cannot write in {path}: {error.strerror}") from error
    free = free_bytes(path)
    if free < LEAST_FREE_BYTES:
        raise Unfit(f"the disk of {path} has {free / 1024**2:.0f} MB left, Gangway needs 1024: make room there")


def postgres(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=TIMEOUT_S).close()
    except psycopg.Error as error:
        raise _unreachable("PostgreSQL", "GANGWAY_POSTGRES_URL", url, error) from error


def redis_server(url: str) -> None:
    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S)
        client.ping()
        client.close()
    except (redis.RedisError, ValueError, OSError) as error:
        raise _unreachable("Redis", "GANGWAY_REDIS_URL", url, error) from error


def etcd(url: str) -> None:
    """One endpoint of those named has to take a connection; who answers there is the store's own business."""
    refused: Exception = ValueError("no endpoint is named")
    for endpoint in url.split(","):
        parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 2379), timeout=TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            refused = error
        else:
            return
    raise _unreachable("etcd", "GANGWAY_ETCD_URL", url, refused)


def object_storage(url: str) -> None:
    """Any answer will do: without a key S3 says 403."""
    try:
        httpx.get(url, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable("object storage", "GANGWAY_S3_URL", url, error) from error


def _unreachable(what: str, variable: str, url: str, error: Exception) -> Unfit:
    why = " ".join(str(error).split()) or type(error).__name__
    return Unfit(f"{what} does not answer at {without_password(url)} ({variable}): {why}")


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))
