"""Gangs whose host goes, or may go, get their next place before they have left the old one.

*Booking*, before anything is given away: a gang that is saving because its host goes will be back within a minute or
two, and the place where it then goes on is held for it from now on. Where there is none it waits like everybody else.

*Moving*, after everything was given away: from a host over which something is coming, gangs that can save are moved as
soon as there is room for them elsewhere that nobody else has taken; where a time is set, in time for it in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.core import attempts
from scheduler.core.draft import Draft
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms, remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Placement, Sieve, find
from scheduler.core.reserve import stands
from scheduler.core.settle import ask
from scheduler.core.topology import Node
from scheduler.core.types import MOVING, Event, EventKind, Notice, NoticeKind, OnLoss, Phase, Reservation, StopCause

LEEWAY_MS = 30_000
"""So long before the last moment for a whole grace a gang has to leave a host that goes at a set time."""
NEAR_END_MS = 600_000
"""A job that is planned to end within this time is left to end."""
TRIED_A_PLAN = 64
"""Gangs for which one plan looks for another place."""


def book(draft: Draft) -> None:
    """Hold a place for each gang that is leaving a host which goes."""
    snapshot = draft.snapshot
    leaving = [job for job in snapshot.pick(snapshot.stopping) if _comes_back(draft, job)]
    if not leaving:
        return
    held = {one.job: one for one in snapshot.reservations.held}
    tried = _Trial(draft)
    found: list[tuple[Job, Placement]] = []
    for job in leaving:
        place = held.get(job.id)
        if place is not None and stands(snapshot, place):
            continue
        if place is not None:
            snapshot.quiet_until_ms = draft.now_ms  # what is held in vain is to be let go, whatever else is quiet
        if (placement := tried.place(job)) is not None:
            found.append((job, placement))
    tried.over()
    for job, placement in found:
        _book(draft, job, placement)


def _comes_back(draft: Draft, job: Job) -> bool:
    """Whether the gang leaves for its host's sake, to go on elsewhere."""
    stop = job.decision.stop
    if stop is None or stop.for_job is not None or job.spec.on_preemption is OnLoss.FAIL:
        return False
    if stop.cause is StopCause.SPOT:
        return True
    return stop.cause is StopCause.DRAIN and any(map(_moving, _nodes(draft, job)))


def _book(draft: Draft, job: Job, placement: Placement) -> None:
    nodes = tuple(node.name for node, _ in placement.parts)
    start_ms = max(draft.now_ms, planned_end_ms(job.spec, job.decision))
    held = Reservation(
        nodes=nodes,
        start_ms=start_ms,
        job=job.id,
        gpus=job.spec.gpus,
        gpu_type=placement.gpu_type,
        takes=tuple(mask.bit_count() for _, mask in placement.parts),
        firm=True,
    )
    detail = {"hosts": list(nodes), "start_ms": start_ms, "phase": job.phase.value}
    draft.book(held, Event(EventKind.RESERVE, draft.now_ms, job.id, None, job.decision.attempt, detail))


def leave(draft: Draft) -> None:
    """Begin to move gangs from hosts over which something is coming."""
    snapshot, policy = draft.snapshot, draft.policy
    if not snapshot.hinted or not policy.move_on_hint:
        return
    stirred = bool(snapshot.work.gained) or not snapshot.hinted.isdisjoint(snapshot.work.nodes)
    moved: list[tuple[Job, StopCause]] = []
    tried = _Trial(draft)
    for job, cause, overdue in _endangered(draft):
        if overdue or (stirred and _may_wait_elsewhere(draft, job) and tried.place(job) is not None):
            moved.append((job, cause))
    tried.over()
    for job, cause in moved:
        ask(draft, job, cause)


def _endangered(draft: Draft) -> Iterator[tuple[Job, StopCause, bool]]:
    """Running gangs on hosts that should be left, why, and whether it is high time."""
    snapshot, now = draft.snapshot, draft.now_ms
    names = {name for host in snapshot.hinted for name in snapshot.node(host).jobs}
    for job in snapshot.pick(names):
        nodes = [node for node in _nodes(draft, job) if _moving(node)]
        if not nodes or job.phase is not Phase.RUNNING or not _saves(draft, job):
            continue
        kinds = {notice.kind for node in nodes for notice in _hints(node)}
        cause = StopCause.SPOT if kinds == {NoticeKind.REBALANCE} else StopCause.DRAIN
        times = [at for node in nodes for notice in _hints(node) if (at := notice.gone_at_ms) is not None]
        last_ms = min(times) - draft.policy.grace_ms - LEEWAY_MS if times else None
        if last_ms is not None and last_ms > now:
            draft.wake(last_ms)
        yield job, cause, last_ms is not None and last_ms <= now


def _may_wait_elsewhere(draft: Draft, job: Job) -> bool:
    return planned_end_ms(job.spec, job.decision) > draft.now_ms + NEAR_END_MS


def _saves(draft: Draft, job: Job) -> bool:
    """Whether the gang loses next to nothing by a stop. What loses its work is left to run as long as it can."""
    saves = job.spec.checkpoint
    return saves is not None and saves.takes_ms <= draft.policy.grace_ms and job.spec.on_preemption is OnLoss.RESUME


def _hints(node: Node) -> list[Notice]:
    return [notice for notice in node.report.hints if notice.kind in MOVING] if node.report is not None else []


def _moving(node: Node) -> bool:
    return node.hinted and bool(_hints(node))


def _nodes(draft: Draft, job: Job) -> list[Node]:
    return [draft.snapshot.node(part.node) for part in job.decision.allocation]


class _Trial:
    """Places tried out one after the other, none of them twice: each stays taken until all is over."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._mark = draft.mark()
        self._left = TRIED_A_PLAN
        self._limits: Limits | None = None

    def place(self, job: Job) -> Placement | None:
        """Where the whole gang would find another place now, if its own were free but where its hosts are closed."""
        draft, now = self._draft, self._draft.now_ms
        if not self._left or draft.snapshot.why_parked(job) is not None:
            return None
        self._left -= 1
        mark = draft.mark()
        waits = replace(
            job.decision,
            phase=Phase.PENDING,
            allocation=(),
            gpu_type="",
            bound_ms=None,
            started_ms=None,
            deadline_ms=None,
            not_before_ms=0,
            reason=None,
        )
        draft.assume(job, waits)
        assert job.shape is not None, "a job that may be tried is queued with its shape"
        asker = Asker(job.id, job.spec.team, job.priority)
        end_ms = now + remaining_ms(job.spec, job.decision)
        placement = find(draft.snapshot.topology, job.shape, Sieve(job.shape, self._all_limits(), asker, end_ms))
        if placement is None:
            draft.forget(mark)
            return None
        bound, _ = attempts.bound(job, placement.slices(), placement.gpu_type, draft.policy, draft.fence, now)
        draft.assume(job, bound)
        return placement

    def over(self) -> None:
        self._draft.forget(self._mark)

    def _all_limits(self) -> Limits:
        if self._limits is None:
            self._limits = Limits(self._draft.snapshot, self._draft.now_ms)
            for held in self._draft.snapshot.reservations.held:
                self._limits.add(held)
        return self._limits
