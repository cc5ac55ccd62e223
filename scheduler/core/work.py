"""What has changed since the last plan and must be looked at: a plan's cost follows it.

A plan takes the work and decides. What it decided is *expected*: when exactly those records come in, they bring no new
work, for the plan has drawn its conclusions from them already. If one of them did not come in by the next plan (its
commit failed), everything that the plan had looked at is looked at again.
"""

from __future__ import annotations

from scheduler.core.types import JobDecision, NodeDecision, Reservations

Decision = JobDecision | NodeDecision | Reservations

ALL = "*"
"""Stands for every GPU type among those of which something came free."""


class Work:
    """``jobs`` and ``nodes`` whose records changed, ``gained`` GPU types of which some came free, ``arrived`` jobs that
    began to wait."""

    __slots__ = ("_expected", "_taken", "arrived", "gained", "jobs", "nodes")

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.nodes: set[str] = set()
        self.gained: set[str] = set()
        self.arrived: set[str] = set()
        self._expected: dict[int, Decision] = {}
        self._taken: Work | None = None

    def gain_all(self) -> None:
        self.gained.add(ALL)

    def expects(self, record: Decision) -> bool:
        """Whether the last plan decided this very record; it is then off the list of what is still to come."""
        return self._expected.pop(id(record), None) is not None

    def begin(self) -> None:
        """Start a plan: add back what an earlier plan looked at if its decisions did not all come in."""
        taken, self._taken = self._taken, None
        if self._expected and taken is not None:
            self.jobs |= taken.jobs
            self.nodes |= taken.nodes
            self.arrived |= taken.arrived
            self.gain_all()
        self._expected = {}

    def copy(self) -> Work:
        twin = Work()
        twin.jobs, twin.nodes = set(self.jobs), set(self.nodes)
        twin.gained, twin.arrived = set(self.gained), set(self.arrived)
        return twin

    def end(self, taken: Work, expected: list[Decision], late: set[str]) -> None:
        """Close a plan that looked at ``taken`` and decided ``expected``; of ``late`` types it freed GPUs too late to
        give them away itself."""
        self.jobs, self.nodes, self.arrived = set(), set(), set()
        self.gained = set(late)
        self._expected = {id(record): record for record in expected}
        self._taken = taken if expected else None
