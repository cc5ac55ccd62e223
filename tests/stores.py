"""Real stores for the tests: PostgreSQL, etcd, Redis and S3, each started at most once a session, on first use.

Their addresses are chosen, and put into the environment, when ``portal.settings.test`` is loaded; nothing is started
by that. ``GANGWAY_TEST_POSTGRES_URL`` (``_ETCD_``, ``_REDIS_``, ``_S3_``) names a server that runs already, which is
then used as it is. Sessions side by side do not meet: each has ports and a scratch directory of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from portal.supervisor.ports import free_port
from portal.supervisor.process import Child, Program
from portal.supervisor.servers import etcd, postgres, redis, s3

S3_KEYS = ("tests-access-key", "tests-secret-key")
STORES = ("POSTGRES", "ETCD", "REDIS", "S3")

_scratch = Path(tempfile.gettempdir()) / f"gangway-tests-{os.getpid()}-{os.urandom(4).hex()}"
_running: dict[str, Child] = {}
_ours: dict[str, int] = {}
"""The stores that this process has to start, with their ports."""


@cache
def choose() -> None:
    """Put the address of every store into the environment, where settings and child processes find it."""
    for store in STORES:
        given = os.environ.get(f"GANGWAY_TEST_{store}_URL")
        if given is None:
            _ours[store] = free_port()
            given = os.environ[f"GANGWAY_TEST_{store}_URL"] = _address(store, _ours[store])
        os.environ[f"GANGWAY_{store}_URL"] = given
    if "S3" in _ours:
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = S3_KEYS
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"


def url(store: str) -> str:
    """The address of a store that answers: started now if nobody did.

    Raises:
        CannotStart: it does not come up.
    """
    choose()
    if store in _ours and store not in _running:
        _start(store)
    return os.environ[f"GANGWAY_{store}_URL"]


def child(store: str) -> Child:
    """The process of a store that this session started, for tests that kill it."""
    url(store)
    return _running[store]


def stop_all() -> None:
    for child in reversed(_running.values()):
        child.stop()
    _running.clear()
    shutil.rmtree(_scratch, ignore_errors=True)


def _address(store: str, port: int) -> str:
    if store == "POSTGRES":
        return postgres.url(_sockets())
    if store == "ETCD":
        return etcd.url(port)
    return redis.url(port) if store == "REDIS" else s3.url(port)


def _sockets() -> Path:
    return _scratch / "socket"


def _start(store: str) -> None:
    _scratch.mkdir(mode=0o755, exist_ok=True)
    child = Child(_program(store, _ours[store]), _scratch / f"{store.lower()}.log")
    _running[store] = child
    child.wait_until_ready()
    if store == "POSTGRES":
        postgres.ensure_database(_sockets())


def _program(store: str, port: int) -> Program:
    data = _scratch / store.lower()
    if store == "POSTGRES":
        return postgres.program(data, _sockets(), durable=False)
    if store == "REDIS":
        return redis.program(data, port)
    if store == "S3":
        argv = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
        return Program(name="s3", argv=argv, ready=lambda: s3.listens(port))
    return etcd.program(data, port)
