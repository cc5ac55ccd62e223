"""Which files hold what this host's ranks write, and when they may go: between the executor and the shipper of logs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from nodes.agent.executor import HostExecutor
from nodes.agent.keeping import Rank
from nodes.agent.logs import LOOK_EVERY_S, Shipper
from nodes.agent.retired import Retired

log = structlog.get_logger(__name__)


class Outputs:
    """Has the shipper follow every rank that is here, or was, and removes what has been shipped."""

    def __init__(self, executor: HostExecutor, retired: Retired, shipper: Shipper) -> None:
        self._executor = executor
        self._retired = retired
        self._shipper = shipper

    async def run(self) -> None:
        """Ship for ever, until cancelled. A disk that fails holds up nothing else."""
        while True:
            try:
                self.tend()
                await self._shipper.step()
            except OSError as error:
                log.error("the logs of ranks cannot be read", error=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    def tend(self) -> None:
        """Tell the shipper what there is, and let go of what it is done with."""
        for gang in self._executor.gangs:
            for number, rank in gang.ranks.items():
                if gang.released:
                    self._shipper.follow(*gang.key, number, rank.output)
                    if gang.has_ended(number):
                        self._shipper.ended(*gang.key, number)
        for path in self._retired.paths:
            self._let_go(path)

    def _let_go(self, path: Path) -> None:
        job, _, attempt = path.name.rpartition("@")
        for number, rank in _ranks(path).items():
            self._shipper.follow(job, int(attempt), number, rank.output)
            self._shipper.ended(job, int(attempt), number)
        if self._shipper.drained(job, int(attempt)):
            self._shipper.forget(job, int(attempt))
            self._retired.remove(path)


def _ranks(path: Path) -> dict[int, Rank]:
    """The ranks of an attempt that have written something."""
    found = {int(entry.name): Rank(entry) for entry in path.iterdir() if entry.name.isdecimal()}
    return {number: rank for number, rank in sorted(found.items()) if rank.output.exists()}
