"""What an agent says of its host beside the ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from nodes.telemetry import Telemetry
from scheduler.core.types import GpuFault, NodeReport, Notice


@dataclass(frozen=True, slots=True)
class Observed:
    """What a report has of the host: what is coming over it, and what its GPUs have."""

    faulty_gpus: tuple[int, ...] = ()
    gone_at_ms: int | None = None
    notices: tuple[Notice, ...] = ()
    faults: tuple[GpuFault, ...] = ()

    def on(self, report: NodeReport) -> NodeReport:
        """The report with this in it."""
        return replace(
            report,
            faulty_gpus=self.faulty_gpus,
            gone_at_ms=self.gone_at_ms,
            notices=self.notices,
            faults=self.faults,
        )


class Host(Protocol):
    """The host of an agent."""

    def observed(self) -> Observed:
        """What stands now."""

    def telemetry(self) -> Telemetry | None:
        """The newest readings; None where there are none and none are expected."""

    def listen(self, changed: Callable[[], object]) -> None:
        """Have ``changed`` called, in the agent's loop, whenever ``observed`` has become another."""


class NoHost:
    """A host of which nothing is read."""

    def observed(self) -> Observed:
        return Observed()

    def telemetry(self) -> Telemetry | None:
        return None

    def listen(self, changed: Callable[[], object]) -> None:
        """Nothing ever changes."""
