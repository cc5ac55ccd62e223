"""What runs beside the stores: web, Celery's workers and clock, the simulated fleet, the workload."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import httpx

from portal.supervisor.config import BASE_DIR, Config
from portal.supervisor.process import Program

READY_WITHIN_S = 60.0


def environ(config: Config, stores: dict[str, str], secret_key: str) -> dict[str, str]:
    """What every program of this run finds in its environment."""
    return {
        **stores,
        "DJANGO_SETTINGS_MODULE": "portal.settings.local",
        "GANGWAY_SECRET_KEY": secret_key,
        "GANGWAY_DATA": str(config.data),
        "GANGWAY_STATIC_ROOT": str(config.data / "static"),
        "GANGWAY_ORIGINS": f"{config.address},http://localhost:{config.port}",
        "PYTHONUNBUFFERED": "1",
    }


def prepare(config: Config, env: dict[str, str]) -> Program:
    """Migrations, static files, demo: a program that ends."""
    return _python("prepare", env, str(BASE_DIR / "manage.py"), "prepare", "--fleet", config.fleet, within_s=120.0)


def web(config: Config, env: dict[str, str]) -> Program:
    described = _python(
        "web",
        env,
        *("-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--port", str(config.port)),
        *("--loop", "uvloop", "--http", "httptools", "--ws", "websockets-sansio", "--workers", "1"),
        # Agents hold their long polls open for as long as they may.
        *("--no-access-log", "--log-level", "warning", "--timeout-graceful-shutdown", "2"),
    )
    return replace(described, ready=lambda: answers(config.address + "/healthz"))


def workers(config: Config, env: dict[str, str]) -> list[Program]:
    """A worker for decisions, one that records, three for what takes long, and the clock."""
    celery = ("-m", "celery", "-A", "portal")
    quiet = ("--loglevel", "warning", "--without-gossip", "--without-mingle", "--without-heartbeat")
    schedule = str(config.data / "beat-schedule")
    return [
        _python(
            "worker-scheduler",
            env,
            *(*celery, "worker", "-Q", "scheduler", "--pool", "solo", "-n", "scheduler@%h", *quiet),
        ),
        _python(
            "worker-recording",
            env,
            *(
                *celery,
                "worker",
                "-Q",
                "recording",
                "--pool",
                "threads",
                "-c",
                "2",
                "-n",
                "recording@%h",
                *quiet,
            ),
        ),
        _python(
            "worker-default",
            env,
            *(*celery, "worker", "-Q", "default", "--pool", "threads", "-c", "2", "-n", "default@%h", *quiet),
        ),
        _python(
            "worker-previews",
            env,
            *(*celery, "worker", "-Q", "previews", "--pool", "threads", "-c", "2", "-n", "previews@%h", *quiet),
        ),
        _python(
            "worker-eta",
            env,
            *(*celery, "worker", "-Q", "eta", "--pool", "threads", "-c", "1", "-n", "eta@%h", *quiet),
        ),
        _python(
            "beat",
            env,
            *(*celery, "beat", "--schedule", schedule, "--pidfile=", "--loglevel", "warning"),
        ),
    ]


def fleet(config: Config, env: dict[str, str], join_token: str) -> Program:
    """The token goes by the environment: command lines can be read by every user of the machine."""
    return _python(
        "fleet",
        {**env, "GANGWAY_JOIN_TOKEN": join_token},
        *("-m", "nodes.agent.fleet", "--url", config.address),
        *("--state", str(config.data / "fleet"), "--size", config.fleet),
    )


def workload(config: Config, env: dict[str, str], people: Path) -> Program:
    return _python("workload", env, "-m", "portal.demo.workload", "--url", config.address, "--people", str(people))


def _python(name: str, env: dict[str, str], *argv: str, within_s: float = READY_WITHIN_S) -> Program:
    return Program(name=name, argv=(sys.executable, *argv), env=env, cwd=BASE_DIR, ready_within_s=within_s)


def answers(url: str) -> bool:
    """Whether GET answers 200."""
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
