"""The cluster as this process last saw it: a read-only copy of the live state, fed by a watch of its own.

Pages, sockets, explanations and the agents' orders are computed from it. It never plans and never writes.

    with picture().reading() as snapshot:
        ranked(snapshot, policy, now_ms)

It starts at its first use, or with the portal's ASGI lifespan; importing this module starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Event, Lock, RLock, Thread

import structlog

from scheduler import clock, connections
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy, PolicyIntent
from scheduler.core.waiting import Weights
from scheduler.core.work import Work
from scheduler.loader import Fed, Loader
from scheduler.policy import hear
from scheduler.store import keys
from scheduler.store.base import Compacted, Store, StoreUnavailable

log = structlog.get_logger(__name__)

WAIT_S = 0.25
"""How long the thread waits for a change before it looks whether it should end."""
BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Pauses between tries to reach a store that is away; the last one repeats."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What changed between two revisions of the picture.

    ``nodes`` are those with a record of their own that changed, and those that a changed job's gang came to or left.
    ``everything`` means that it was loaded afresh, or that its freshness changed: what was known before may be wrong.
    """

    revision: int
    jobs: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    quota: bool = False
    reservations: bool = False
    everything: bool = False


Listener = Callable[[Touched], None]


class Picture:
    """A snapshot, kept fresh by a thread. Take ``reading()`` around whatever looks into it.

    ``fresh`` is false before the first load and while the store is away; ``stale_since_ms`` then says since when (None
    before the first load). ``revision`` is the store's revision that is shown, 0 before the first load.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        now_ms: Callable[[], int],
        policy: Callable[[PolicyIntent | None], Policy] = lambda changed: Policy(),
    ) -> None:
        """``store()`` is asked for in the thread, so that nothing is opened before ``start()``.

        ``policy`` makes the leader's of what people changed: what is computed here is what will be decided there.
        """
        self._open = store
        self._now_ms = now_ms
        self._policy = policy
        self._shown: Loader | None = None
        self._following: Loader | None = None
        self._seats: dict[str, frozenset[str]] = {}
        self._lock = RLock()
        self._moved = Condition(self._lock)
        self._ending = Event()
        self._thread: Thread | None = None
        self._listeners: list[Listener] = []
        self.fresh = False
        self.stale_since_ms: int | None = None

    # --- reading

    @property
    def revision(self) -> int:
        with self._lock:
            return self._shown.revision if self._shown else 0

    @property
    def garbled(self) -> dict[str, str]:
        """The keys that lie in the store and cannot be read, with the reason."""
        with self._lock:
            return dict(self._shown.garbled) if self._shown else {}

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """The snapshot, held still for as long as the block runs: keep it short.

        Raises:
            StoreUnavailable: nothing was ever loaded.
        """
        with self._lock:
            if self._shown is None:
                raise StoreUnavailable("the live state has not been loaded yet")
            yield self._shown.snapshot

    def wait_for(self, revision: int, timeout_s: float) -> bool:
        """Whether the picture shows ``revision`` or a later one, at the latest after ``timeout_s`` seconds."""
        with self._moved:
            return self._moved.wait_for(lambda: self._shown is not None and self.revision >= revision, timeout_s)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each change, in the picture's thread, without its lock; answers how to end that.

        A listener must return at once: hand over to an event loop with ``call_soon_threadsafe``.
        """
        with self._lock:
            self._listeners.append(listener)

        def unlisten() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unlisten

    # --- the thread

    def start(self) -> Picture:
        """Start the thread unless it runs; answers the picture."""
        with self._lock:
            if self._thread is None:
                self._ending.clear()
                self._thread = Thread(target=self._run, name="picture", daemon=True)
                self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread and wait for it. What was seen last stays readable, and stale."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._ending.set()
            thread.join()

    def _run(self) -> None:
        misses = 0
        while not self._ending.is_set():
            try:
                self._follow(self._loaded())
                misses = 0
            except Compacted:
                log.warning("the picture fell behind and is loaded afresh", revision=self.revision)
            except StoreUnavailable as error:
                self._pause(misses, str(error))
                misses += 1
            except Exception:
                # A web process lives on without its picture, says so on every page, and tries again from scratch.
                log.exception("the picture could not take in a change")
                self._discard()
                self._pause(misses, "an error in the picture")
                misses += 1
        self._set_fresh(False)

    def _loaded(self) -> Loader:
        """The loader that is being followed; else a new one, loaded aside so that readers keep the old until then."""
        if self._following is None:
            loader = Loader(self._open())
            loader.load()
            self._tune(loader)
            with self._moved:
                self._shown = self._following = loader
                self._seats = _seats(loader.snapshot, loader.snapshot.jobs)
                self._moved.notify_all()
            self._set_fresh(True)
            self._tell(Touched(loader.revision, everything=True))
        return self._following

    def _follow(self, loader: Loader) -> None:
        """Wait for the next changes and take them in. The wait holds no lock; none at all means that all is well."""
        try:
            news = loader.await_news(WAIT_S)
        except Compacted:
            self._discard()
            raise
        if self._set_fresh(True):
            self._tell(Touched(self.revision, everything=True))
        with self._moved:
            # What follows is charged by this clock, and back-offs end by it.
            loader.snapshot.tell_time(self._now_ms())
            if not news:
                return
            fed = loader.catch_up()
            touched = self._touched(fed, loader)
            loader.snapshot.work = Work()  # nobody plans here, so nobody would ever take it up
            self._moved.notify_all()
        self._tell(touched)

    def _touched(self, fed: Fed, loader: Loader) -> Touched:
        snapshot = loader.snapshot
        if fed.afresh or keys.INTENT_POLICY in fed.keys:
            self._tune(loader)
            self._seats = _seats(snapshot, snapshot.jobs)
            return Touched(fed.revision, everything=True)
        jobs = _named(fed, keys.INTENT_JOBS, keys.DECISION_JOBS)
        left = {job: self._seats.pop(job) for job in jobs & self._seats.keys()}
        taken = _seats(snapshot, jobs)
        self._seats |= taken
        own = _named(fed, keys.INTENT_NODES, keys.DECISION_NODES, keys.REPORT, keys.ALIVE)
        return Touched(
            fed.revision,
            jobs=jobs,
            nodes=own.union(*left.values(), *taken.values()),
            quota=keys.INTENT_QUOTA in fed.keys,
            reservations=keys.DECISION_RESERVATIONS in fed.keys or bool(_named(fed, keys.INTENT_RESERVATIONS)),
        )

    def _tune(self, loader: Loader) -> None:
        """Have the snapshot count and order as the leader's does."""
        policy, snapshot = self._policy(loader.policy), loader.snapshot
        snapshot.tell_time(self._now_ms())
        snapshot.fade(policy.half_life_ms)
        snapshot.weigh(Weights.of(policy))

    def _discard(self) -> None:
        """Load afresh next time; what is shown stays shown."""
        if self._following is not None:
            self._following.stop_watching()
        self._following = None

    def _pause(self, misses: int, why: str) -> None:
        if self._set_fresh(False):
            log.warning("the picture is stale", revision=self.revision, why=why)
            self._tell(Touched(self.revision, everything=True))
        self._ending.wait(BACKOFF_S[min(misses, len(BACKOFF_S) - 1)])

    def _set_fresh(self, fresh: bool) -> bool:
        """Answers whether that was a change."""
        with self._lock:
            if self.fresh is fresh:
                return False
            self.fresh = fresh
            self.stale_since_ms = None if fresh else self._now_ms()
            return True

    def _tell(self, touched: Touched) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(touched)
            except Exception:
                # One broken listener is its own owner's trouble; the others and the picture go on.
                log.exception("a listener of the picture failed")


def _seats(snapshot: Snapshot, jobs: Iterable[str]) -> dict[str, frozenset[str]]:
    """The nodes that the gangs of these jobs sit on; a job without a gang is left out."""
    found: dict[str, frozenset[str]] = {}
    for job_id in jobs:
        job = snapshot.jobs.get(job_id)
        if job is not None and job.decision.allocation:
            found[job_id] = frozenset(part.node for part in job.decision.allocation)
    return found


def _named(fed: Fed, *prefixes: str) -> frozenset[str]:
    return frozenset(key[key.rfind("/") + 1 :] for key in fed.keys if key.startswith(prefixes))


_pictures: dict[int, Picture] = {}
_pictures_lock = Lock()


def picture() -> Picture:
    """This process's picture, started at the first call. A forked child has one of its own."""
    with _pictures_lock:
        if os.getpid() not in _pictures:
            _pictures[os.getpid()] = Picture(connections.store, clock.now_ms, hear)
        return _pictures[os.getpid()].start()
