"""`/healthz`: the process answers. `/readyz`: so does everything that it needs, each asked with a bound on the wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

import httpx
import psycopg
import structlog
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from scheduler import connections
from scheduler.store import keys

log = structlog.get_logger(__name__)

BOUND_S = 3
"""How long the answer waits for the slowest store."""
CONNECT_S = 2


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 where every store answers, else 503; which one does not is in ``stores``, why is in the log."""
    found = ask()
    ready = all(answer == "ok" for answer in found.values())
    status = 200 if ready else 503
    return JsonResponse({"status": "ready" if ready else "not ready", "stores": found}, status=status)


def _postgres() -> None:
    options = f"-c statement_timeout={CONNECT_S * 1000}"
    with psycopg.connect(settings.POSTGRES_URL, connect_timeout=CONNECT_S, options=options) as connection:
        connection.execute("SELECT 1")


def _etcd() -> None:
    connections.store().get(keys.LEADER)


def _redis() -> None:
    connections.cache().ping()


def _s3() -> None:
    # Without credentials it refuses, and by that shows that it is there.
    answer = httpx.get(settings.S3_URL, timeout=CONNECT_S)
    if answer.status_code >= 500:
        raise ConnectionError(f"answers {answer.status_code}")


CHECKS: Mapping[str, Callable[[], None]] = {"postgresql": _postgres, "etcd": _etcd, "redis": _redis, "s3": _s3}

_threads = ThreadPoolExecutor(max_workers=2 * len(CHECKS), thread_name_prefix="readyz")
_asked: dict[str, Future[None]] = {}
"""The last question to each store. One that still waits is not asked again: a store that hangs holds one thread."""


def ask() -> dict[str, str]:
    """What each store answers: ``ok``, or what is wrong. Takes ``BOUND_S`` at the most."""
    for name, check in CHECKS.items():
        if name not in _asked or _asked[name].done():
            _asked[name] = _threads.submit(check)
    until = monotonic() + BOUND_S
    return {name: _outcome(name, until - monotonic()) for name in CHECKS}


def _outcome(name: str, wait_s: float) -> str:
    try:
        _asked[name].result(timeout=max(0.0, wait_s))
    except TimeoutError:
        return f"no answer within {BOUND_S} s"
    except Exception as error:
        log.warning("store_not_ready", store=name, error=repr(error))
        return "no answer"
    return "ok"
