"""Runs a host's ranks for real, as processes or as containers: all gangs on it, and the GPUs between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from nodes.agent import keeping
from nodes.agent.gang import Gang, Record
from nodes.agent.launcher import Launcher
from nodes.agent.retired import Retired
from nodes.agent.simulated import Stepped
from scheduler.core.types import Assignment, GangReport

log = structlog.get_logger(__name__)

_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:\[\]-]{0,63}")
"""What the control plane calls jobs: safe as a directory's name."""


class HostExecutor:
    """Everything that runs on this host.

    Args:
        runs: the directory of the attempts' directories. What lies there is gone on with.
        scratch: the directory in which each attempt gets its own.
    """

    def __init__(self, runs: Path, scratch: Path, launcher: Launcher, retired: Retired) -> None:
        self._runs = runs
        self._scratch = scratch
        self._launcher = launcher
        self._retired = retired
        self._reported: tuple[GangReport, ...] = ()
        self._gangs = {gang.key: gang for gang in self._found()}

    @property
    def gangs(self) -> tuple[Gang, ...]:
        """The attempts that are here now."""
        return tuple(self._gangs.values())

    def holder(self, gpu: int) -> tuple[str, int] | None:
        """The job and attempt of which a rank has the GPU; None where none has."""
        for key, gang in self._gangs.items():
            if gang.living and gpu in gang.assignment.gpus:
                return key
        return None

    def step(self, assignments: Sequence[Assignment], now_ms: int) -> Stepped:
        """Obey the assignments, look at the ranks, and say what is."""
        wanted = {(assignment.job, assignment.attempt): assignment for assignment in assignments}
        for key in [key for key in self._gangs if key not in wanted]:
            self._withdraw(self._gangs[key], now_ms)
        for assignment in assignments:
            self._obey(assignment, now_ms)
        self._retired.sweep(now_ms)
        keeping.reap()
        return Stepped(self._reports(), self._wake_ms(now_ms), self._busy())

    def _obey(self, assignment: Assignment, now_ms: int) -> None:
        key = (assignment.job, assignment.attempt)
        gang = self._gangs.get(key)
        if gang is None:
            if _JOB.fullmatch(assignment.job) is None:
                log.error("the name of a job cannot be that of a directory", job=assignment.job)
                return
            gang = self._gangs[key] = Gang(*self._places(key), Record(assignment), self._launcher)
        self._bring(gang, assignment, now_ms)

    def _withdraw(self, gang: Gang, now_ms: int) -> None:
        """An attempt that is not to be here: forgotten once none of its ranks lives."""
        self._bring(gang, None, now_ms)
        if not gang.living:
            del self._gangs[gang.key]
            gang.close()
            self._retired.take(gang.path, gang.scratch, now_ms)

    def _bring(self, gang: Gang, order: Assignment | None, now_ms: int) -> None:
        try:
            gang.obey(order, now_ms, self._gpus_are_free(gang))
        except OSError as error:
            # A disk that is full, mostly. What was done holds; the rest is done as soon as it can be.
            gang.hindered(error)
            log.error("an order cannot be carried out", job=gang.assignment.job, error=str(error))
        except Exception:
            # Whatever is wrong with one gang, the others' lease has to be renewed.
            log.exception("an order cannot be carried out", job=gang.assignment.job)

    def _gpus_are_free(self, newcomer: Gang) -> bool:
        """Whether no rank of another attempt lives on the newcomer's GPUs."""
        wanted = set(newcomer.assignment.gpus)
        return not any(
            gang.living and not wanted.isdisjoint(gang.assignment.gpus)
            for gang in self._gangs.values()
            if gang is not newcomer
        )

    def _reports(self) -> tuple[GangReport, ...]:
        reports = tuple(gang.report() for gang in self._gangs.values())
        if len(reports) != len(self._reported) or any(a is not b for a, b in zip(reports, self._reported, strict=True)):
            self._reported = reports
        return self._reported

    def _wake_ms(self, now_ms: int) -> int | None:
        moments = [gang.wake_ms(now_ms) for gang in self._gangs.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _busy(self) -> bool:
        return any(gang.living or not gang.record.ready for gang in self._gangs.values())

    # --- what an earlier life of the agent has left

    def _found(self) -> list[Gang]:
        found = []
        for path in sorted(self._runs.glob("*@*")):
            if self._retired.has(path):
                continue
            try:
                found.append(Gang.found(path, self._scratch / path.name, self._launcher))
            except (OSError, msgspec.MsgspecError) as error:
                # Its ranks cannot be spoken for; those that live end with the lease of this host.
                log.error("an attempt's record cannot be read", path=str(path), error=str(error))
        return found

    def _places(self, key: tuple[str, int]) -> tuple[Path, Path]:
        name = f"{key[0]}@{key[1]}"
        return self._runs / name, self._scratch / name
