"""The scheduler as one process runs it: its claim to lead, its warm snapshot, and one step of deciding.

A step reads nothing but the store and leaves nothing behind but commits, so it may be run at any time, any number of
times, by any number of processes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic

import structlog

from scheduler import clock, connections
from scheduler.caution import careful, hidden
from scheduler.committer import Result, commit
from scheduler.core.plan import plan
from scheduler.core.types import Policy, PolicyIntent
from scheduler.leader import Leader
from scheduler.loader import Loader
from scheduler.policy import hear
from scheduler.store import keys
from scheduler.store.base import Store, StoreUnavailable
from scheduler.usage_kept import UsageKeeper

log = structlog.get_logger(__name__)

RENEW_MS = 1000
"""The lease is renewed at most this often: steps may follow each other within milliseconds."""
SEE_S = 0.1
"""How long a step waits for the watch to bring what the store has committed already. Another user of the same store may
have committed what the watch does not bring, so the wait has an end."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did. ``token`` is the fencing token, None where another process leads.

    ``journalled``: there is something for the recorder. ``again``: something was stale, so another step should follow.
    """

    token: int | None = None
    committed: int = 0
    journalled: bool = False
    again: bool = False


class Runtime:
    """One scheduler process. One thread uses it.

    Args:
        policy: what to decide by, from what people changed of it.
        ids: makes the journal's keys.
        now_ms: the wall clock, for the journal.
        monotonic_ms: a clock that is never set, for the lease.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        policy: Callable[[PolicyIntent | None], Policy],
        *,
        ids: Callable[[], str],
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._policy = policy
        self._ids = ids
        self._monotonic_ms = monotonic_ms
        self._leader = Leader(store, name, ids=ids, now_ms=now_ms, monotonic_ms=monotonic_ms)
        self._loader = Loader(store)
        self._token: int | None = None
        self._renewed_ms = 0
        self._latest_ms = 0
        self._usage = UsageKeeper()
        self._hidden: list[str] = []
        self._deciding_by: Policy | None = None

    def step(self, now_ms: int, leading: Callable[[], None] = lambda: None, repair: bool = False) -> Step:
        """Decide what can be decided at ``now_ms`` and commit it; does nothing while another process leads.

        Never raises because the store is away: the next step begins where this one could not.

        Args:
            leading: called once it is sure that this process leads, before any state is read.
            repair: look for moves, too, if the policy has them made and their time has come.
        """
        elected = self._token
        try:
            token = self._lead()
            if token is None:
                self._loader.drop()
                return Step()
            leading()
            self._catch_up(token)
            done = self._decide(token, now_ms, repair)
            if not done.halted:
                self._usage.keep(self._store, self._loader, token, self._latest_ms)
        except StoreUnavailable as error:
            log.warning("cannot decide: the store is away", error=str(error))
            return Step()
        return Step(
            token=token,
            committed=len(done.committed),
            journalled=bool(done.committed) or token != elected,
            again=bool(done.refused) or done.halted,
        )

    def resign(self) -> None:
        """Give the lead up, so that another process has it at once."""
        self._leader.resign()
        self._loader.drop()

    def _lead(self) -> int | None:
        if self._leader.token is None or self._monotonic_ms() - self._renewed_ms >= RENEW_MS:
            self._renewed_ms = self._monotonic_ms()
            self._leader.hold()
        token = self._leader.token
        if token != self._token:
            # What a former term knew or applied may never have happened.
            self._loader.drop()
            self._token = token
            self._usage = UsageKeeper()
        return token

    def _catch_up(self, token: int) -> None:
        """Bring the snapshot up to everything that is committed by now, whatever wake-up it was announced by."""
        committed = self._store.read(keys.LEADER).revision
        self._loader.catch_up(through=token)
        ends = monotonic() + SEE_S
        while self._loader.revision < committed and (left := ends - monotonic()) > 0:
            self._loader.catch_up(wait_s=left)
        policy = self._policy(self._loader.policy)
        if self._deciding_by not in (None, policy):
            # What a snapshot has found out holds for the policy that it was found out by.
            self._loader.load()
        self._deciding_by = policy

    def _decide(self, token: int, now_ms: int, repair: bool) -> Result:
        try:
            # A wall clock may be set back; the plan's never goes back.
            self._latest_ms = max(self._latest_ms, now_ms)
            decided = plan(self._loader.snapshot, self._by(repair), self._latest_ms, token)
            decided = careful(decided, self._loader, self._latest_ms)
            self._tell_hidden()
            done = commit(self._store, self._loader, decided, token, self._ids)
        except BaseException:
            # Nobody knows what a plan that broke off has left in the snapshot.
            self._loader.drop()
            raise
        if done.halted:
            self.resign()
        return done

    def _by(self, repair: bool) -> Policy:
        """What to decide by now: moves are looked for when that is asked, not in every step."""
        policy = self._policy(self._loader.policy)
        if policy.repair == "auto" and not repair:
            return replace(policy, repair="propose")
        if policy.repair == "auto":
            self._loader.snapshot.work.gain_all()  # or a plan in which nothing changed would not come so far
        return policy

    def _tell_hidden(self) -> None:
        """Say it once, and again whenever it changes."""
        found = hidden(self._loader)
        if found != self._hidden:
            self._hidden = found
            if found:
                log.error("nothing is started: GPUs may be held by what cannot be read", keys=found)
            else:
                log.warning("all can be read again, jobs are started")


_runtimes: dict[int, Runtime] = {}
_lock = Lock()


def this_process() -> Runtime:
    """The runtime of this process, on its stores and clocks."""
    with _lock:
        pid = os.getpid()
        if pid not in _runtimes:
            _runtimes[pid] = Runtime(
                connections.store(),
                f"{socket.gethostname()}:{pid}",
                hear,
                ids=connections.ids,
                now_ms=clock.now_ms,
                monotonic_ms=lambda: int(monotonic() * 1000),
            )
        return _runtimes[pid]


def resign_this_process() -> None:
    """Give the lead up if this process has it: called when its worker ends in good order."""
    with _lock:
        running = _runtimes.pop(os.getpid(), None)
    if running is not None:
        running.resign()
