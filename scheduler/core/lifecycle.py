"""A job's life: the table of moves between phases, and when each phase is next due for a decision."""

from __future__ import annotations

from scheduler.core.types import TERMINAL, JobDecision, JobSpec, Phase

MOVES: frozenset[tuple[Phase, Phase]] = frozenset(
    {
        (Phase.PENDING, Phase.STARTING),  # bound: the whole gang in one commit
        (Phase.PENDING, Phase.CANCELLED),
        (Phase.PENDING, Phase.FAILED),  # cannot go on: what it came after failed, or it asked not to be run again
        (Phase.STARTING, Phase.RUNNING),  # the barrier: every rank is ready
        (Phase.STARTING, Phase.PENDING),  # a start that failed or was not wanted any more: nothing to save
        (Phase.STARTING, Phase.CANCELLED),
        (Phase.STARTING, Phase.FAILED),
        (Phase.RUNNING, Phase.STOPPING),  # a planned stop begins with a handshake
        (Phase.RUNNING, Phase.PENDING),  # a failure frees the gang at once
        (Phase.RUNNING, Phase.SUCCEEDED),
        (Phase.RUNNING, Phase.FAILED),
        (Phase.RUNNING, Phase.CANCELLED),
        (Phase.STOPPING, Phase.PENDING),
        (Phase.STOPPING, Phase.SUCCEEDED),  # its ranks ended well by themselves within the grace
        (Phase.STOPPING, Phase.FAILED),
        (Phase.STOPPING, Phase.CANCELLED),
    }
)
"""Every move there is. A phase may also stay as it is; a terminal one never changes again."""


def may_move(old: Phase, new: Phase) -> bool:
    return (old is new and old not in TERMINAL) or (old, new) in MOVES


def remaining_ms(spec: JobSpec, decision: JobDecision) -> int:
    """How much longer the job may work, if it were started now from its newest checkpoint."""
    return max(0, spec.max_runtime_ms - decision.saved_work_ms)


def planned_end_ms(spec: JobSpec, decision: JobDecision) -> int:
    """When the gang's GPUs are expected back: at its time limit, or at the end of its grace."""
    if decision.phase is Phase.STOPPING and decision.stop is not None:
        stop = decision.stop
        return stop.asked_ms if stop.deadline_ms is None else stop.deadline_ms
    since = decision.started_ms if decision.started_ms is not None else decision.bound_ms
    assert since is not None, f"{spec.id} holds GPUs and was never bound"
    return since + spec.max_runtime_ms - decision.banked_ms


def due_ms(spec: JobSpec, decision: JobDecision) -> int | None:
    """The next moment at which time alone calls for a decision about the job; None if none does."""
    match decision.phase:
        case Phase.STARTING:
            return decision.deadline_ms
        case Phase.RUNNING:
            end_ms = planned_end_ms(spec, decision)
            return min(end_ms, decision.failing_until_ms) if decision.failing_until_ms else end_ms
        case Phase.STOPPING:
            stop = decision.stop
            if stop is not None and not stop.over and not stop.saved:
                return stop.deadline_ms
            return decision.deadline_ms
        case Phase.PENDING:
            return decision.not_before_ms or None
        case _:
            return None


def same_wait(one: JobDecision, other: JobDecision) -> bool:
    """Whether a waiting job goes on waiting as before, but for its reason."""
    return (
        other.phase is Phase.PENDING
        and one.met == other.met
        and one.avoid == other.avoid
        and one.not_before_ms == other.not_before_ms
        and one.saved_work_ms == other.saved_work_ms
        and one.eligible_ms == other.eligible_ms
    )
