"""What agents say in the tests of this folder, and the clocks that they say it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from nodes.protocol import SyncRequest, boot_id
from scheduler.core.types import Action, Assignment, GangReport, JobSpec, NodeReport, RankReport, RankState

NODE = "az1-r1-h1"
FIRST_BOOT = boot_id(1, b"\1\1\1\1")
SECOND_BOOT = boot_id(2, b"\0\0\0\0")


def refused(counter: Counter) -> float:
    """How many messages a counter of outcomes has counted that were not as they should be."""
    samples = (sample for metric in counter.collect() for sample in metric.samples if sample.name.endswith("_total"))
    return sum(
        one.value for one in samples if one.labels["outcome"] not in ("unchanged", "changed", "taken", "registered")
    )


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now_ms: int = 1_000_000

    def ms(self) -> int:
        return self.now_ms

    def s(self) -> float:
        return self.now_ms / 1000

    def pass_s(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def gang(job: str = "job-1", attempt: int = 1, state: RankState = RankState.RUNNING, ranks: int = 2) -> GangReport:
    return GangReport(job, attempt, tuple(RankReport(rank, state) for rank in range(ranks)))


def request(
    sequence: int = 1, *gangs: GangReport, boot: str = FIRST_BOOT, node: str = NODE, **more: Any
) -> SyncRequest:
    return SyncRequest(node, sequence, NodeReport(boot, gangs), **more)


def assignment(job: str = "job-1", attempt: int = 1, fence: int = 7, action: Action = Action.PREPARE) -> Assignment:
    spec = JobSpec(job, "team", 2, "H100", 2, 3_600_000, 0)
    return Assignment(job, attempt, fence, action, (0, 1), (0, 1), 2, 0, (NODE,), None, 0, spec)
