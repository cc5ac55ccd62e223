"""Small programs to supervise, and a supervisor whose signal handlers do not outlive the test."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.supervisor.process import Program
from portal.supervisor.supervise import Supervisor

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "log", said.append) as running:
        yield running


def python(name: str, code: str, **wanted: object) -> Program:
    """A program that runs ``code``."""
    return Program(name=name, argv=(sys.executable, "-c", code), **wanted)  # type: ignore[arg-type]


WAITS = "import signal; signal.pause()"
