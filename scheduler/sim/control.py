"""The control plane of a run, in this process: lease, warm snapshot, plan, commit, as in the live worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.committer import commit
from scheduler.core.plan import plan
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobChange, Plan, Policy
from scheduler.leader import Leader
from scheduler.loader import Loader
from scheduler.sim.clock import VirtualClock
from scheduler.store import keys
from scheduler.store.base import Store
from scheduler.usage_kept import EVERY_MS, UsageKeeper

Inspect = Callable[[Snapshot, Plan, int], None]
"""Looks at a plan before it is committed: the snapshot that it was made from, the plan, the time."""

FOREVER_S = 10**9
"""The lease does not run out by itself: between two moments of a run lie ticks that renew it and that nobody plays."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick did.

    ``wake_ms`` as in ``Plan``; None too where nobody leads. ``jobs`` are those of which a decision was committed.
    ``elected``: this tick's process has just taken the lead.
    """

    decided: bool = False
    wake_ms: int | None = None
    jobs: tuple[str, ...] = ()
    elected: bool = False


class ControlPlane:
    """The scheduler's process. It can die; a new one takes over under a greater fencing token."""

    def __init__(
        self,
        store: Store,
        clock: VirtualClock,
        policy: Policy,
        ids: Callable[[], str],
        usage_every_ms: int = EVERY_MS,
    ) -> None:
        self._usage_every_ms = usage_every_ms
        self._store = store
        self._clock = clock
        self._policy = policy
        self._ids = ids
        self._number = 0
        self._token = 0
        self._leader: Leader | None = None
        self._loader: Loader | None = None
        self._usage = UsageKeeper(self._usage_every_ms)
        self.inspect: Inspect | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The cluster as the leader sees it; None while there is no leader."""
        return self._loader.snapshot if self._loader is not None and self._loader.revision else None

    @property
    def alive(self) -> bool:
        return self._leader is not None

    def die(self) -> None:
        """The process is gone; its lease stays in the store until somebody takes over."""
        self._leader = None
        self._loader = None

    def take_over(self) -> None:
        """Another process leads from the next tick on: the lease of the one before it has run out.

        Raises:
            StoreUnavailable: nobody can lead now.
        """
        before = self._store.get(keys.LEADER)
        if before is not None:
            self._store.revoke(before.lease)
        self._number += 1
        self._leader = Leader(
            self._store,
            f"leader-{self._number}",
            ids=self._ids,
            now_ms=self._clock,
            monotonic_ms=self._clock,
            ttl_s=FOREVER_S,
        )
        self._loader = Loader(self._store)
        self._usage = UsageKeeper(self._usage_every_ms)

    def tick(self) -> Ticked:
        """Catch up, plan, commit.

        Raises:
            StoreUnavailable: nothing is decided; the next tick tries again.
        """
        if self._leader is None or self._loader is None:
            return Ticked()
        token = self._leader.hold()
        if token is None:
            return Ticked()
        elected, self._token = token != self._token, token
        self._loader.catch_up(through=token)
        now_ms = self._clock()
        self._usage.keep(self._store, self._loader, token, now_ms)
        planned = plan(self._loader.snapshot, self._policy, now_ms, token)
        if not planned.changes:
            return Ticked(False, planned.wake_ms, elected=elected)
        if self.inspect is not None:
            self.inspect(self._loader.snapshot, planned, now_ms)
        result = commit(self._store, self._loader, planned, token, self._ids)
        if result.halted:
            self._leader.resign()
        jobs = tuple(change.job for change in result.committed if isinstance(change, JobChange))
        return Ticked(True, planned.wake_ms, jobs, elected)
