"""When every waiting job may be expected to start: the real plan, rolled forward (see ``rollout``).

Running jobs are taken to use up their limits, waiting ones to start as planned, nobody to submit or fail any more. So a
start told here is one by the limits: jobs that end early bring it forward, newcomers of a higher class push it back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.attempts import DAY_MS
from scheduler.core.rollout import Rollout
from scheduler.core.scratch import Records, Scratch
from scheduler.core.types import Phase, Policy

HORIZON_MS = 7 * DAY_MS
STEPS = 400
COARSE = 100
"""What is due within a hundredth of the time looked ahead is taken to happen together, at the end of that."""
FINEST_MS = 15_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """``starts`` maps waiting jobs to when they start; a job that it does not name is not known to start before
    ``until_ms``, the time up to which was looked ahead."""

    made_ms: int
    until_ms: int
    starts: dict[str, int]


def forecast(
    seen: Records, policy: Policy, *, steps: int = STEPS, go_on: Callable[[], bool] = lambda: True
) -> Forecast:
    """Roll the plan forward from these records.

    Args:
        steps: how many plans to make at most.
        go_on: asked before each plan; False ends the forecast where it is, as a limit on what it may cost.
    """
    snapshot = Scratch().follow(seen)
    asked = {job.id for job in snapshot.jobs.values() if job.phase is Phase.PENDING}
    way = Rollout(snapshot, policy, seen.now_ms, FINEST_MS, COARSE)
    starts = way.course.starts
    way.run(seen.now_ms + HORIZON_MS, steps, lambda: asked <= starts.keys() or not go_on())
    return Forecast(seen.now_ms, way.course.until_ms, {name: at for name, at in starts.items() if name in asked})
