"""Why a job waits, as the planner's own functions explain it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from scheduler.core import reasons
from scheduler.core.types import Phase, Policy
from scheduler.picture import Picture


def why(
    picture: Picture, policy: Policy, job_id: str, now_ms: int, teams: Collection[str] | None = None
) -> dict[str, Any] | None:
    """The explanation of a waiting job as JSON values; None for a job that does not wait or is not in the live state.

    Args:
        teams: those whose jobs the asker may know by name; None: all. Of other teams' holders, team and size are told.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        job = snapshot.jobs.get(job_id)
        if job is None or job.phase is not Phase.PENDING:
            return None
        found: dict[str, Any] = msgspec.to_builtins(reasons.explain(snapshot, policy, job_id, now_ms))
        for holder in found.get("holders", ()):
            if teams is not None and holder["team"] not in teams:
                holder["job"] = None
        return {**found, "revision": picture.revision}
