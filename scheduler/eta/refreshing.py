"""Tells the starts of waiting jobs anew, in a worker of its own: never in the leader's process.

What is learned is read again every few minutes. In between each refresh rolls as often as its time allows, and what the
rolls of the last minute told is taken together. Nothing is told before enough jobs have ended to have a basis.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock

from scheduler import clock, connections
from scheduler.core.queue import ranked
from scheduler.core.scratch import Records, records
from scheduler.core.types import HOLDING, Policy
from scheduler.eta import foretelling, history, moves, scoring, versions
from scheduler.eta.arrivals import Arrivals
from scheduler.eta.calibration import Calibration
from scheduler.eta.foretelling import Foretold
from scheduler.eta.ladder import Ladder
from scheduler.eta.models import StartTold
from scheduler.eta.past import Past, wanted_of
from scheduler.eta.published import Etas, Likely, publish
from scheduler.eta.quantiles import Length
from scheduler.eta.rolling import HORIZON_MS, ROLLS, Rolls, roll
from scheduler.objects import Objects
from scheduler.picture import Picture

LOCK = "gangway:telling-starts"
FIRST, MOST = 500, 5000
"""How many of the queue are told at each refresh, and how many once a minute."""
WHOLE_EVERY_MS = 60_000
LEARN_EVERY_MS = 300_000
COST_MS = 4000
POOLED_MS = 60_000
BASIS = 20
"""Jobs that have to have ended before a start is told."""


class Teller:
    """What one process knows between refreshes."""

    def __init__(self, objects: Callable[[], Objects]) -> None:
        self._objects = objects
        self._learned_ms: int | None = None
        self._whole_ms = 0
        self._teller: foretelling.Lengths = Ladder(())
        self._version = ""
        self._basis = 0
        self._past = Past()
        self._arrivals = Arrivals((), 0)
        self._calibration = Calibration(())
        self._lengths: dict[str, Length] = {}
        self._rolls: deque[Rolls] = deque()
        self._told: dict[str, tuple[int, int, str]] = {}
        self._before: moves.Seen | None = None

    def refresh(self, picture: Picture, policy: Policy, now_ms: int, ticking_ms: Callable[[], int]) -> Etas | None:
        """Tell the starts and publish them; None where another worker is at it, or the live state is away.

        Raises:
            redis.RedisError: Redis is away.
        """
        cache = connections.cache()
        if not picture.fresh or not cache.set(LOCK, "1", nx=True, px=10 * COST_MS):
            return None
        try:
            self._learn(now_ms)
            if self._basis < BASIS:
                return None
            with picture.reading() as snapshot:
                snapshot.tell_time(max(now_ms, snapshot.now_ms))
                queue = ranked(snapshot, policy, now_ms)
                seen = records(snapshot)
            told = self.tell(seen, queue, policy, now_ms, ticking_ms)
            publish(told)
            return told
        finally:
            cache.delete(LOCK)

    def tell(self, seen: Records, queue: list[str], policy: Policy, now_ms: int, ticking_ms: Callable[[], int]) -> Etas:
        """The starts of the jobs in ``queue``: of the first ones, and once a minute of all."""
        whole = now_ms - self._whole_ms >= WHOLE_EVERY_MS
        asked = queue[: MOST if whole else FIRST]
        self._whole_ms = now_ms if whole else self._whole_ms
        lengths = self._known_lengths(seen)
        ends_ms = ticking_ms() + COST_MS
        self._rolls.append(
            roll(
                seen,
                policy,
                lengths,
                self._arrivals,
                rolls=ROLLS,
                seed=now_ms,
                go_on=lambda: ticking_ms() < ends_ms,
                asked=frozenset(asked),
            )
        )
        while self._rolls[0].made_ms < now_ms - POOLED_MS:
            self._rolls.popleft()
        gpus = {name: count for name, count in foretelling.waiting(seen).items() if name in frozenset(asked)}
        found = foretelling.foretell(now_ms, HORIZON_MS, foretelling.pooled(list(self._rolls)), gpus, self._calibration)
        return Etas(now_ms, self._note(found, seen, lengths, now_ms))

    # --- what is learned

    def _learn(self, now_ms: int) -> None:
        """Read what is known again, where that was some minutes ago."""
        if self._learned_ms is not None and now_ms - self._learned_ms < LEARN_EVERY_MS:
            return
        now = clock.to_datetime(now_ms)
        known = history.ran(now)
        self._basis = sum(one.ended_s is not None for one in known)
        self._teller, self._version = versions.teller(self._objects(), known)
        self._past = versions.past_of(known)
        self._arrivals = history.arrivals(now, known)
        self._calibration = Calibration(scoring.scored(now))
        self._lengths = {}
        self._told = scoring.told_last(now)
        self._learned_ms = now_ms

    def _known_lengths(self, seen: Records) -> dict[str, Length]:
        """Of all that are there; each is worked out once until something is learned."""
        new = [name for name in seen.jobs if name not in self._lengths]
        wanted = [wanted_of(seen.jobs[name][0].spec) for name in new]
        self._lengths.update(zip(new, self._teller.lengths(wanted, self._past), strict=True))
        for name in self._lengths.keys() - seen.jobs.keys():
            del self._lengths[name]
        return self._lengths

    # --- what is told

    def _note(
        self, found: Mapping[str, Foretold], seen: Records, lengths: Mapping[str, Length], now_ms: int
    ) -> dict[str, Likely]:
        """What is told, with why it moved. What moved, and what is told first, is kept."""
        now = moves.seen(seen, _ends(seen, lengths), self._version)
        answer: dict[str, Likely] = {}
        rows: list[StartTold] = []
        for job, one in found.items():
            spec = seen.jobs[job][0].spec
            basis = self._teller.basis(wanted_of(spec)) if isinstance(self._teller, Ladder) else "model"
            known = self._told.get(job)
            why = known[2] if known is not None else ""
            moved = known is None or moves.has_moved(one.p50_ms, known[0], known[1])
            if moved and known is not None:
                why = moves.why(job, one.p50_ms > known[0], self._before or now, now).value
            if moved:
                self._told[job] = one.p50_ms, now_ms, why
                rows.append(_row(job, spec.team, spec.gpus, one, basis, why, now_ms))
            if one.within:
                answer[job] = Likely(one.p50_ms, one.p90_ms, basis, why)
        StartTold.objects.bulk_create(rows)
        self._before = now
        return answer


def _ends(seen: Records, lengths: Mapping[str, Length]) -> dict[str, int]:
    """When each running job is expected to end: the median of what is left, as it was expected when it began."""
    answer = {}
    for name, (intent, decision) in seen.jobs.items():
        since = decision.started_ms
        if decision.phase in HOLDING and since is not None:
            whole_ms = min(intent.spec.max_runtime_ms, round(lengths[name].at(0.5) * 1000))
            answer[name] = since + whole_ms - decision.banked_ms
    return answer


def _row(job: str, team: str, gpus: int, one: Foretold, basis: str, why: str, now_ms: int) -> StartTold:
    return StartTold(
        job=job,
        team=team,
        gpus=gpus,
        at=clock.to_datetime(now_ms),
        p50=clock.to_datetime(one.p50_ms),
        p90=clock.to_datetime(one.p90_ms),
        raw_s=one.raw_s,
        basis=basis,
        why=why,
    )


_tellers: dict[int, Teller] = {}
_lock = Lock()


def teller() -> Teller:
    """This process's own."""
    with _lock:
        return _tellers.setdefault(os.getpid(), Teller(connections.objects))
