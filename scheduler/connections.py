"""The stores that this process speaks to, each opened at first use and once a process.

gRPC channels and sockets do not survive a fork: a child that inherited a connection opens its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import SystemRandom
from threading import Lock
from typing import Any, cast

import redis
from django.conf import settings
from django.db import connection

from scheduler.clock import now_ms
from scheduler.ids import Ulids
from scheduler.objects import Objects
from scheduler.store.base import Store
from scheduler.store.etcd import EtcdStore

_lock = Lock()
_opened: dict[tuple[int, str], Any] = {}

ids = Ulids(now_ms, SystemRandom().getrandbits)
"""Makes the ids of live jobs and journal entries."""


def store() -> Store:
    """The state store named by ``settings.ETCD_URL``. Threads may share it."""
    return cast(Store, _once("etcd", lambda: EtcdStore(settings.ETCD_URL)))


def cache() -> redis.Redis:
    """Redis, for what may be lost. Times out after a second, so that it can hold up nobody for long."""
    return cast(
        redis.Redis,
        _once("redis", lambda: redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)),
    )


def objects() -> Objects:
    """Object storage: ``settings.S3_URL``. Threads may share it."""
    return cast(Objects, _once("objects", lambda: Objects(settings.S3_URL)))


def release_database() -> None:
    """Give the thread's connection to PostgreSQL back before something that may take long. A later query takes one."""
    if not connection.in_atomic_block:
        connection.close()


def close() -> None:
    """Close what this process has opened; the next use opens it again."""
    with _lock:
        mine = [key for key in _opened if key[0] == os.getpid()]
        for key in mine:
            _opened.pop(key).close()


def _once(name: str, connect: Callable[[], Any]) -> Any:
    key = (os.getpid(), name)
    with _lock:
        if key not in _opened:
            _opened[key] = connect()
        return _opened[key]
