"""The agent's hold on one rank: its directory, and through that its keeper, which outlives the agent."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from nodes.agent import keeper
from nodes.agent.files import write_private

log = structlog.get_logger(__name__)

T = TypeVar("T")

ERRORS = "keeper.err"
RUN_DIRECTORY = "run"
"""The one directory below a rank's that the rank itself writes into: ``GANGWAY_RUN_DIR``."""


_started: set[subprocess.Popen[bytes]] = set()
"""Keepers and engines' commands that this process has started and not reaped yet, whoever still knows of them."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """``launch.json``: what the keeper executes, and how.

    ``signal``, ``kill`` and ``remove`` are an engine's commands for a container (``{signal}`` stands for a number);
    empty for a process. ``cgroup`` is a directory whose limits hold for the rank, made beforehand; empty for none.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    save_signal: int
    lease: str
    cgroup: str = ""
    signal: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Exit(msgspec.Struct, frozen=True):
    """``exit.json``. ``asked`` says who had the rank end (``agent``, ``lease``), empty where it did by itself."""

    code: int
    asked: str = ""
    at_ms: int = 0


class Life(StrEnum):
    """Whether a rank lives. ``LOST``: its keeper died and took it along, so nobody knows how it ended."""

    ABSENT = "absent"
    LIVING = "living"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Found:
    life: Life
    exit: Exit | None = None


class _Process(msgspec.Struct, frozen=True):
    pid: int
    start: int


class _Who(msgspec.Struct, frozen=True):
    """``keeper.json``."""

    keeper: _Process
    rank: _Process


class Rank:
    """One rank on this host. Everything that is known of it lies in ``path``, so that any agent can take it over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_directory = path / RUN_DIRECTORY
        self.output = path / keeper.OUTPUT
        self._started: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Make the rank's directories.

        Raises:
            OSError: they cannot be made.
        """
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.run_directory.mkdir(mode=0o755, exist_ok=True)

    def start(self, launch: Launch) -> None:
        """Start the rank; where it has a keeper, or has ended, nothing happens.

        Raises:
            OSError: the keeper cannot be started; try again.
        """
        write_private(self.path / keeper.LAUNCH, msgspec.json.encode(launch))
        errors = os.open(self.path / ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Blocked from its first instruction, so that no signal of ours finds the keeper unprepared.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, keeper.HEARD)
        try:
            self._started = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={},
                start_new_session=True,
            )
            _started.add(self._started)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
            os.close(errors)

    def look(self) -> Found:
        """Whether the rank lives, or how it has ended."""
        if (ended := self._exit()) is not None:
            self._reap()
            return Found(Life.ENDED, ended)
        if not self._reap() or self._is_kept():
            return Found(Life.LIVING)
        if (ended := self._exit()) is not None:  # written since the first look
            return Found(Life.ENDED, ended)
        never = self._started is None and not (self.path / keeper.WHO).exists()
        return Found(Life.ABSENT if never else Life.LOST)

    def save(self) -> None:
        """Have the rank sent the signal by which its job saves."""
        self._tell(keeper.SAVE)

    def end(self) -> None:
        """Have the rank asked to end."""
        self._tell(keeper.END)

    def kill(self) -> None:
        """Have the rank and all that it started killed; one that was not started yet never will be."""
        try:
            (self.path / keeper.STOP).touch(mode=0o600)
        except OSError as error:
            log.error("a rank cannot be marked as not to be started", rank=str(self.path), error=str(error))
        self._tell(keeper.KILL)

    def sweep(self) -> None:
        """Kill what a rank that was lost with its keeper has left: its container, and whatever has its directory in the
        environment."""
        launch = _record(self.path / keeper.LAUNCH, Launch)
        if launch is not None and launch.remove:
            _started.add(subprocess.Popen(launch.remove, stdin=subprocess.DEVNULL, env=launch.env))
        mark = f"GANGWAY_RUN_DIR={self.run_directory}\0".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and mark in _environment(entry):
                log.warning("killing what a lost rank has left", pid=int(entry.name), rank=str(self.path))
                _send(int(entry.name), signal.SIGKILL)

    def _tell(self, number: int) -> None:
        if self._started is not None and self._started.poll() is None:
            self._started.send_signal(number)
            return
        who = self._who()
        if who is None:
            return
        try:
            handle = os.pidfd_open(who.keeper.pid)
        except ProcessLookupError:
            return
        try:
            # The lock is held, so the keeper that wrote its pid lives, and it is the one that the handle is of.
            if self._is_kept() and keeper.start_of(who.keeper.pid) == who.keeper.start:
                signal.pidfd_send_signal(handle, number)
        except OSError as error:
            log.info("a keeper ended before it was told", rank=str(self.path), error=str(error))
        finally:
            os.close(handle)

    def _reap(self) -> bool:
        """Whether no keeper lives that this process has started."""
        return self._started is None or self._started.poll() is not None

    def _is_kept(self) -> bool:
        try:
            handle = os.open(self.path / keeper.LOCK, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def _exit(self) -> Exit | None:
        return _record(self.path / keeper.EXIT, Exit)

    def _who(self) -> _Who | None:
        return _record(self.path / keeper.WHO, _Who)


def reap() -> None:
    """Take the exit of every process of ours that has ended."""
    for process in [process for process in _started if process.poll() is not None]:
        _started.discard(process)


def _record(path: Path, kind: type[T]) -> T | None:
    """What the file holds. They are written in one step, by a keeper of ours: there is no half of one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""  # another user's, or it has ended


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
