"""One host for tests with real processes: its directories, its lease, and what is told to its ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from nodes.agent import keeper, keeping
from nodes.agent.executor import HostExecutor
from nodes.agent.gang import Gang
from nodes.agent.keeping import Life, Rank
from nodes.agent.launcher import Launcher
from nodes.agent.memory import Lease
from nodes.agent.processes import ProcessLauncher
from nodes.agent.retired import Retired
from scheduler.core.types import Action, Assignment, CheckpointSpec, GangReport, JobSpec, RankState
from scheduler.core.types import Launch as Command
from tests.system import until

SAVES = CheckpointSpec(60_000, 1_000, "s3://bucket/prefix/")
WITHIN_S = 30.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def python(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program, *arguments)


def order(
    command: tuple[str, ...] = ("true",), action: Action = Action.PREPARE, ranks: int = 1, **fields: Any
) -> Assignment:
    """An order for the first attempt of job-1, whose ranks are all here."""
    spec = JobSpec("job-1", "team", ranks, "H100", 2, 3_600_000, 0, checkpoint=SAVES)
    spec = replace(spec, launch=Command("image:1", command, fields.pop("env", {})), **fields.pop("spec", {}))
    numbers = tuple(range(ranks))
    made = Assignment(
        "job-1", 1, 7, action, numbers, numbers, ranks, 0, ("h1",), None, 0, spec, "", "127.0.0.1", 29_500
    )
    return replace(made, **fields)


class Host:
    """A host below ``path``. ``restart`` puts a fresh agent's executor in the place of the one that is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs, self.scratch, self.lease = path / "runs", path / "scratch", path / "lease.json"
        self.runs.mkdir()
        self.scratch.mkdir()
        self.launcher: Launcher = ProcessLauncher(
            {"PATH": "/usr/local/bin:/usr/bin:/bin"}, {"GANGWAY_NODE": "h1"}, self.lease
        )
        self.renew(3_600)
        self.restart()

    def renew(self, seconds: float) -> None:
        """The node counts as alive for so much longer."""
        lease = Lease(keeper.kernel_boot(), keeper.clock_ms() + int(seconds * 1000))
        fresh = self.lease.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(lease))
        fresh.replace(self.lease)

    def restart(self) -> None:
        self.retired = Retired(self.runs)
        self.executor = HostExecutor(self.runs, self.scratch, self.launcher, self.retired)

    # --- what is told, and what is seen

    def tell(self, *orders: Assignment) -> tuple[GangReport, ...]:
        return self.executor.step(orders, now_ms()).gangs

    def told_until(self, condition: Callable[[], bool], *orders: Assignment) -> None:
        """Step, as an agent does, until the condition holds."""

        def stepped() -> bool:
            self.tell(*orders)
            return condition()

        until(stepped, WITHIN_S, lambda: f"{self.states()}\n{self.said()}")

    def gang(self) -> Gang:
        (gang,) = self.executor.gangs
        return gang

    def report(self) -> GangReport:
        return self.gang().report()

    def states(self) -> list[RankState]:
        return [rank.state for gang in self.executor.gangs for rank in gang.report().ranks]

    def release(self, asked: Assignment) -> Assignment:
        """Prepare and run; answers the order to run. Every rank has a keeper by then."""
        self.tell(replace(asked, action=Action.PREPARE))
        running = replace(asked, action=Action.RUN)
        self.told_until(lambda: all(rank.look().life is not Life.ABSENT for rank in self.ranks()), running)
        return running

    def run_to_end(self, asked: Assignment) -> GangReport:
        running = self.release(asked)
        self.told_until(lambda: not self.gang().living, running)
        return self.report()

    def ranks(self) -> list[Rank]:
        return list(self.gang().ranks.values())

    def said(self, rank: int = 0) -> str:
        """What a rank has written."""
        found = [gang.ranks[rank].output for gang in self.executor.gangs if rank in gang.ranks]
        return found[0].read_text(errors="replace") if found and found[0].exists() else ""

    def says(self, text: str, asked: Assignment, rank: int = 0) -> None:
        """Wait until a rank has written this."""
        self.told_until(lambda: text in self.said(rank), asked)

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this host's ranks: keepers, ranks and what these have started."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = str(self.path) in " ".join(process.cmdline()) or str(self.path) in str(process.environ())
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def close(self) -> None:
        """End everything that is left."""
        self.tell()
        until(lambda: not self._left(), WITHIN_S, lambda: str(self._left()))
        self.retired.close()

    def _left(self) -> list[object]:
        self.tell()
        for process in self.processes():
            process.kill()
        return [*self.processes(), *keeping._started]
