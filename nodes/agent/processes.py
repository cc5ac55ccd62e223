"""Ranks as processes of the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nodes.agent.cgroups import Cgroups
from nodes.agent.environment import of_a_rank
from nodes.agent.keeping import Launch, Rank
from nodes.agent.launcher import save_signal
from scheduler.core.types import Assignment


class ProcessLauncher:
    """Executes the job's command as it is; its image is not looked at.

    Args:
        host: what ranks get of the host's environment.
        place: the node's own variables.
        lease: the file that says until when the node certainly counts as alive.
        cgroups: sets limits; None where they cannot be had.
    """

    def __init__(
        self, host: Mapping[str, str], place: Mapping[str, str], lease: Path, cgroups: Cgroups | None = None
    ) -> None:
        self._host = host
        self._place = place
        self._lease = lease
        self._cgroups = cgroups

    def prepare(self, assignment: Assignment) -> bool:
        """A process needs nothing but its directories."""
        return True

    def launch(self, assignment: Assignment, at: int, rank: Rank, scratch: Path) -> Launch:
        """
        Raises:
            OSError: its limits cannot be set.
        """
        own = of_a_rank(assignment, at, self._place, scratch, rank.run_directory)
        return Launch(
            argv=assignment.spec.launch.command,
            env={"HOME": str(scratch), **self._host, **own},
            cwd=str(scratch),
            save_signal=save_signal(assignment),
            lease=str(self._lease),
            cgroup=self._limits(assignment, at),
        )

    def _limits(self, assignment: Assignment, at: int) -> str:
        if self._cgroups is None:
            return ""
        spec = assignment.spec
        name = f"{assignment.job}@{assignment.attempt}-{assignment.ranks[at]}"
        return str(self._cgroups.make(name, spec.cpu_per_rank, spec.memory_per_rank_gb))
