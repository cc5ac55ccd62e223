"""The recorder of a run: takes the journal out of the store in order, and takes out the jobs that are over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.core.types import Event, EventKind
from scheduler.sim.history import History
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Entry, Put, Store


class Recorder:
    """Drains the journal into ``history`` and ``tell``.

    A job that is over leaves the store once its GPUs are free and no living job waits for it.
    """

    def __init__(self, store: Store, history: History, tell: Callable[[Event], None]) -> None:
        self._store = store
        self._history = history
        self._tell = tell
        self._watch = store.watch(keys.JOURNAL, 1)
        self._waiting_for: dict[str, set[str]] = {}
        """By job: the living jobs that name it in ``after``."""

    def depends(self, job: str, after: Iterable[str]) -> None:
        for other in after:
            self._waiting_for.setdefault(other, set()).add(job)

    def drain(self) -> int:
        """Record what the journal holds; answers how many entries it were.

        Raises:
            StoreUnavailable: the store is away; the entries stay.
        """
        batch = self._watch.next(0)
        if batch is None:
            return 0
        entries = [change.entry for change in batch.changes if change.entry is not None]
        ended = dict.fromkeys(job for entry in entries for job in self._record(entry))
        deletes = [Delete(entry.key) for entry in entries]
        for job in self._leaving(ended):
            deletes += [Delete(keys.intent_job(job)), Delete(keys.decision_job(job))]
        if deletes:
            self._store.commit([], deletes)
        return len(entries)

    def _record(self, entry: Entry) -> Iterable[str]:
        """Tell the events of one entry; answers the jobs that may be over by them."""
        for event in _events(entry):
            self._history.take(event)
            self._tell(event)
            if event.job is not None and event.kind in (EventKind.END, EventKind.RELEASE):
                yield event.job

    def _leaving(self, ended: Iterable[str]) -> Iterable[str]:
        """The jobs among these, and among those that they waited for, that the store need not hold any longer."""
        candidates: dict[str, None] = {}
        for job in ended:
            record = self._history.jobs[job]
            if record.over:
                candidates[job] = None
                for other in record.spec.after:
                    if other in self._waiting_for:
                        self._waiting_for[other].discard(job)
                        candidates[other] = None
        for job in candidates:
            known = self._history.jobs.get(job)
            if known is not None and known.over and not known.held and not self._waiting_for.get(job):
                yield job


def _events(entry: Entry) -> list[Event]:
    events = codec.decode(list[Event], entry.value)
    return [_with_fence(event, entry) if event.kind is EventKind.LEADER else event for event in events]


def _with_fence(event: Event, entry: Entry) -> Event:
    """An election's journal entry and the leader's key come by one commit: their create revision is the token."""
    return replace(event, detail={**event.detail, "fence": entry.create_revision})


def put(key: str, record: object) -> Put:
    """The operation that puts a record under its key."""
    return Put(key, codec.encode(record))
