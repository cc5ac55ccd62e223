"""When the state store showed what, by a watch of the benchmark's own: the system is not asked about itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType

from scheduler.core.types import JobDecision, NodeReport, Phase
from scheduler.store import codec, keys
from scheduler.store.base import Changed
from scheduler.store.etcd import EtcdStore

POLL_S = 0.2


class Watcher:
    """Notes, by the monotonic clock in seconds, when each job was first seen ``bound``, ``heard`` of by an agent, and
    ``running``. Follows the store from the moment at which the block is entered."""

    def __init__(self, url: str) -> None:
        self._store = EtcdStore(url)
        self._watch = self._store.watch(keys.PREFIX, self._store.read(keys.LEADER).revision + 1)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watcher")
        self.bound: dict[str, float] = {}
        self.heard: dict[str, float] = {}
        self.running: dict[str, float] = {}

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()
        self._watch.close()
        self._store.close()

    def wait_for(self, jobs: Iterable[str], timeout_s: float) -> None:
        """Until all of the jobs were seen running, at most so many seconds."""
        waiting, until_s = set(jobs), time.monotonic() + timeout_s
        while not waiting <= self.running.keys() and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def _follow(self) -> None:
        while not self._ending.is_set():
            batch = self._watch.next(POLL_S)
            now_s = time.monotonic()
            for change in batch.changes if batch else ():
                self._note(change, now_s)

    def _note(self, change: Changed, now_s: float) -> None:
        if change.entry is None:
            return
        if change.key.startswith(keys.DECISION_JOBS):
            job = change.key.removeprefix(keys.DECISION_JOBS)
            decision = codec.decode(JobDecision, change.entry.value)
            if decision.allocation:
                self.bound.setdefault(job, now_s)
            if decision.phase is Phase.RUNNING:
                self.running.setdefault(job, now_s)
        elif change.key.startswith(keys.REPORT):
            for gang in codec.decode(NodeReport, change.entry.value).gangs:
                self.heard.setdefault(gang.job, now_s)
