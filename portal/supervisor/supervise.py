"""Keeps programs running: starts them in tiers, starts again what ends, and ends them all when it is told to.

Signals only set a mark and wake the loop; a second Ctrl-C therefore cannot cut the shutdown short.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from portal.supervisor.process import CannotStart, Child, Program

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 10.0
STEADY_AFTER_S = 30.0
"""A program that ran for so long had a good start: its next one comes at once again."""


class StopAsked(Exception):
    """A signal asked for the end while something was being waited for."""


@dataclass(slots=True)
class Kept:
    """A program that is kept running. ``due`` is when it starts again, None while it runs."""

    program: Program
    child: Child
    started: float
    failures: int = 0
    due: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Use as a context: leaving it ends every child. ``say`` gets one line for each thing worth a person's eye."""

    logs: Path
    say: Callable[[str], None]
    tiers: list[list[Kept]] = field(default_factory=list)
    asked: bool = False
    _wake: tuple[int, int] = (-1, -1)

    def __enter__(self) -> Self:
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)
        signal.signal(signal.SIGCHLD, _only_wake)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self, programs: Sequence[Program]) -> None:
        """Start the programs as one tier, side by side, and return when all are ready.

        Raises:
            CannotStart: one of them does not come up.
            StopAsked: a signal came in the meantime.
        """
        tier: list[Kept] = []
        self.tiers.append(tier)
        for program in programs:
            tier.append(Kept(program, Child(program, self._log(program)), time.monotonic()))
        for kept in tier:
            self._wait_until_ready(kept)

    def wait_for(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Look again and again until ``condition()`` holds; False if it does not in time.

        Raises:
            StopAsked: a signal came.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self._pause(0.05)
            if self.asked:
                raise StopAsked
        if self.asked:
            raise StopAsked
        return True

    def run_once(self, program: Program) -> None:
        """Run a program to its end, which must be a good one.

        Raises:
            CannotStart: it ended otherwise, or not in time.
            StopAsked: a signal came.
        """
        child = Child(program, self._log(program))
        try:
            ended = self.wait_for(lambda: child.exit_code() is not None, program.ready_within_s)
        finally:
            child.kill()
        if not ended:
            raise CannotStart(f"{program.name} is not done after {program.ready_within_s:.0f} s, see {child.log}")
        if child.exit_code() != 0:
            raise CannotStart(f"{program.name} failed: {child.last_words()}")

    def run(self) -> None:
        """Keep everything running until a signal asks for the end."""
        while not self.asked:
            now = time.monotonic()
            for tier in self.tiers:
                for kept in tier:
                    self._look_after(kept, now)
            due = [kept.due for tier in self.tiers for kept in tier if kept.due is not None]
            self._pause(max(0.0, min(due) - now) if due else 60.0)

    def stop(self) -> None:
        """End every child, the last tier first, so that nothing loses its stores before it is done."""
        while self.tiers:
            children = [kept.child for kept in self.tiers.pop()]
            for child in children:
                child.ask_to_stop()
            deadline = time.monotonic() + max((child.program.stop_within_s for child in children), default=0.0)
            for child in children:
                if not child.wait(max(0.0, deadline - time.monotonic())):
                    self.say(f"{child.program.name} did not stop in time and was killed")
                child.kill()

    def _wait_until_ready(self, kept: Kept) -> None:
        program, child = kept.program, kept.child
        if not self.wait_for(lambda: child.exit_code() is not None or program.ready(), program.ready_within_s):
            raise CannotStart(f"{program.name} is not ready after {program.ready_within_s:.0f} s, see {child.log}")
        if child.exit_code() is not None:
            raise CannotStart(f"{program.name} ended at the start: {child.last_words()}")

    def _look_after(self, kept: Kept, now: float) -> None:
        if kept.due is not None:
            if now >= kept.due:
                kept.child = Child(kept.program, self._log(kept.program))
                kept.started, kept.due = now, None
            return
        code = kept.child.exit_code()
        if code is None:
            return
        kept.child.kill()  # whatever it left in its session
        kept.failures = 0 if now - kept.started > STEADY_AFTER_S else kept.failures + 1
        delay = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**kept.failures)
        kept.due = now + delay
        self.say(f"{kept.program.name} ended ({_how(code)}); it starts again in {delay:.1f} s")

    def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until a signal comes or a child ends."""
        readable, _, _ = select.select([self._wake[0]], [], [], seconds)
        if readable:
            os.read(self._wake[0], 4096)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def _log(self, program: Program) -> Path:
        return self.logs / f"{program.name}.log"


def _only_wake(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has done the work; a handler has to be there for it to be written."""


def _how(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
