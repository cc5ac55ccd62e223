"""One child process: how it is described, started, asked to stop and, at the end of its grace, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_LOG_BYTES = 16 * 1024 * 1024
LONGEST_LAST_WORDS = 300


class CannotStart(Exception):
    """A program did not come up. The message is one line that says which and why."""


def always_ready() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``ready`` is asked until it answers True; ``user`` is the OS user to run as, None for our own.

    ``capabilities`` are kept across the change of user (``dac_override``). ``stop_signal`` asks for a clean end, which
    may take ``stop_within_s`` seconds.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: str | None = None
    capabilities: tuple[str, ...] = ()
    ready: Callable[[], bool] = always_ready
    ready_within_s: float = 30.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 8.0


class Child:
    """A running program in a session of its own, so that a Ctrl-C at the terminal reaches the supervisor alone."""

    def __init__(self, program: Program, log: Path) -> None:
        self.program = program
        self.log = log
        self._process = _spawn(program, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        self._signal(self.program.stop_signal)

    def kill(self) -> None:
        """End it at once, with every process that it started."""
        self._signal(signal.SIGKILL, group=True)
        self._process.wait()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within the time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ask, wait for the grace, then kill what is left of its session."""
        self.ask_to_stop()
        self.wait(self.program.stop_within_s)
        self.kill()

    def wait_until_ready(self, pause_s: float = 0.03) -> None:
        """Return once ``program.ready()``.

        Raises:
            CannotStart: it ended, or was not ready in time.
        """
        deadline = time.monotonic() + self.program.ready_within_s
        while not self.program.ready():
            if self.exit_code() is not None:
                raise CannotStart(f"{self.program.name} ended at the start: {self.last_words()}")
            if time.monotonic() > deadline:
                within = f"{self.program.ready_within_s:.0f} s"
                raise CannotStart(f"{self.program.name} is not ready after {within}, see {self.log}")
            time.sleep(pause_s)

    def last_words(self) -> str:
        """The last line of its log."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        if not lines:
            return f"it said nothing (exit status {self.exit_code()})"
        return lines[-1] if len(lines[-1]) <= LONGEST_LAST_WORDS else f"{lines[-1][:LONGEST_LAST_WORDS]} …"

    def _signal(self, number: signal.Signals, *, group: bool = False) -> None:
        try:
            if group:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
        except ProcessLookupError:
            pass  # it ended by itself in the meantime, which is what was wanted


def _spawn(program: Program, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as sink:
        try:
            return subprocess.Popen(
                leashed(program),
                env={**os.environ, **program.env},
                cwd=program.cwd,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotStart(f"{program.name} cannot be started: {error.strerror}: {error.filename}") from error


def leashed(program: Program) -> tuple[str, ...]:
    """The command line, by way of ``setpriv``: the kernel kills the child when its supervisor dies, however it dies.

    The change of user is setpriv's too, since a later change of user would make the kernel forget the signal.
    """
    leash = ["setpriv", "--pdeathsig", "KILL"]
    if program.user is not None:
        leash += ["--reuid", program.user, "--regid", program.user, "--clear-groups"]
    if program.capabilities:
        kept = ",".join(f"+{name}" for name in program.capabilities)
        leash += ["--inh-caps", kept, "--ambient-caps", kept]
    return (*leash, *program.argv)
