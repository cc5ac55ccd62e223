"""Puts a plan into the store: every change compared with what it was made from, its events in the same transaction.

Many changes share a transaction, and many transactions are in flight. What keeps that safe:

* Every transaction compares the leader key's create revision (the fencing token), so a deposed leader commits nothing.
* Every change compares the revisions of its own decision and of the intents that it relies on.
* GPUs that a plan frees and gives away again are freed first: a change that takes GPUs is sent only when everything
  before it that freed some is done. If one of those was refused, nothing after it takes GPUs in this plan.
* After an unknown outcome nothing more is sent, and the loader plans no more under this token (``Loader.doubt``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from scheduler.core.types import (
    HOLDING,
    Change,
    JobChange,
    JobDecision,
    NodeChange,
    NodeDecision,
    Plan,
    Reservations,
    Slice,
)
from scheduler.loader import Loader
from scheduler.store import codec, keys
from scheduler.store.base import Committed, Compare, Operation, Put, Store, StoreUnavailable, Transaction

log = structlog.get_logger(__name__)

CHANGES = 16
"""Changes in one transaction: enough to share its cost, few enough to send again one by one when one was stale."""
KEYS = 120
"""Keys that a transaction of several changes names at most; etcd's default takes 128. A single gang may need more."""
BYTES = 256 * 1024
"""Bytes of decisions in a transaction of several changes; their events are of about the same size."""


@dataclass(slots=True)
class Result:
    """What became of a plan.

    ``refused`` changes were stale, or came after one that was, and are for the next plan. ``unsure``: the store did not
    answer, so that some of the others may have happened: the caller resigns and is elected anew before it plans again.
    ``deposed``: another leader has taken over, or the leader's key is gone; the caller resigns.
    """

    committed: list[Change] = field(default_factory=list)
    refused: list[Change] = field(default_factory=list)
    unsure: bool = False
    deposed: bool = False

    @property
    def halted(self) -> bool:
        return self.unsure or self.deposed


@dataclass(frozen=True, slots=True)
class _Write:
    """A change as it goes to the store."""

    change: Change
    key: str
    record: JobDecision | NodeDecision | Reservations
    value: bytes
    relied_on: tuple[str, ...]


def commit(store: Store, loader: Loader, plan: Plan, token: int, ids: Callable[[], str]) -> Result:
    """Commit the plan's changes in its order and apply what was committed to the loader's snapshot at once.

    Args:
        loader: the one whose snapshot the plan was made from, untouched since.
        token: the leader's fencing token.
        ids: makes the journal's keys.
    """
    run = _Run(store, loader, token, ids)
    run.send_in_waves(plan.changes)
    if run.result.refused:
        log.info("changes were stale", refused=len(run.result.refused), committed=len(run.result.committed))
    return run.result


class _Run:
    """One plan on its way into the store."""

    def __init__(self, store: Store, loader: Loader, token: int, ids: Callable[[], str]) -> None:
        self.result = Result()
        self._store = store
        self._loader = loader
        self._token = token
        self._ids = ids
        self._refused: set[str] = set()
        self._nothing_to_take = False

    def send_in_waves(self, changes: Iterable[Change]) -> None:
        """Send parts of the plan, one after the other, whose changes may be committed in any order among themselves.

        A part ends before a change that takes GPUs after one that frees some, and before a key's next change.
        """
        wave: list[_Write] = []
        touched: set[str] = set()
        freed = False
        for change in changes:
            write = _write(change)
            if write.key in touched or (freed and self._takes(change)):
                self._send(wave)
                if self.result.halted:
                    return
                wave, touched, freed = [], set(), False
            wave.append(write)
            touched.add(write.key)
            freed = freed or self._frees(change)
        self._send(wave)

    def _send(self, wave: Sequence[_Write]) -> None:
        writes = [write for write in wave if self._still_stands(write)]
        stale = self._commit(list(_batches(writes)))
        if stale:
            self._find_out_whether_deposed()
        if not self.result.halted:
            alone = [[write] for batch in stale if len(batch) > 1 for write in batch]
            stale = [batch for batch in stale if len(batch) == 1] + self._commit(alone)
        for batch in stale:
            for write in batch:
                self._refuse(write)

    def _still_stands(self, write: _Write) -> bool:
        """Whether nothing that the change builds on was refused; else it is refused too."""
        stands = write.key not in self._refused and not (self._nothing_to_take and self._takes(write.change))
        if not stands:
            self._refuse(write)
        return stands

    def _commit(self, batches: Sequence[Sequence[_Write]]) -> list[Sequence[_Write]]:
        """Send the batches together, apply those that were committed, answer those that were not."""
        if not batches:
            return []
        stale = []
        outcomes = self._store.commit_many([self._transaction(batch) for batch in batches])
        for batch, outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, StoreUnavailable):
                self._doubt(outcome)
            elif isinstance(outcome, Committed) and outcome.ok:
                self._apply(batch, outcome.revision)
            else:
                stale.append(batch)
                if isinstance(outcome, Exception) and len(batch) == 1:
                    log.error("the store does not take a change", key=batch[0].key, error=str(outcome))
        return stale

    def _transaction(self, batch: Sequence[_Write]) -> Transaction:
        compares = [Compare(keys.LEADER, create=self._token)]
        compares += [Compare(key, mod=self._loader.mod(key)) for key in _named(batch)]
        operations: list[Operation] = [Put(write.key, write.value) for write in batch]
        events = [event for write in batch for event in write.change.events]
        if events:
            operations.append(Put(keys.journal(self._ids()), codec.encode(events)))
        return compares, operations

    def _apply(self, batch: Sequence[_Write], revision: int) -> None:
        for write in batch:
            self._loader.apply_committed(write.key, write.record, revision)
            self.result.committed.append(write.change)

    def _refuse(self, write: _Write) -> None:
        self.result.refused.append(write.change)
        self._refused.add(write.key)
        self._nothing_to_take = self._nothing_to_take or self._frees(write.change)

    def _doubt(self, failure: StoreUnavailable) -> None:
        if not self.result.unsure:
            log.warning("the store did not answer a commit", error=str(failure), token=self._token)
        self.result.unsure = True
        self._loader.doubt(self._token)

    def _find_out_whether_deposed(self) -> None:
        try:
            entry = self._store.get(keys.LEADER)
        except StoreUnavailable as failure:
            self._doubt(failure)
        else:
            self.result.deposed = entry is None or entry.create_revision != self._token

    def _takes(self, change: Change) -> bool:
        """Whether the change gives its job GPUs that it does not hold by the snapshot."""
        if not isinstance(change, JobChange) or change.decision.phase not in HOLDING:
            return False
        held = self._held(change.job)
        return change.decision.allocation != held and not _gpus(change.decision.allocation) <= _gpus(held)

    def _frees(self, change: Change) -> bool:
        """Whether the change takes GPUs from its job that it holds by the snapshot."""
        if not isinstance(change, JobChange):
            return False
        held = self._held(change.job)
        kept = change.decision.allocation if change.decision.phase in HOLDING else ()
        return bool(held) and held != kept and not _gpus(held) <= _gpus(kept)

    def _held(self, job: str) -> tuple[Slice, ...]:
        known = self._loader.snapshot.jobs.get(job)
        return known.decision.allocation if known is not None and known.decision.phase in HOLDING else ()


def _gpus(allocation: tuple[Slice, ...]) -> set[tuple[str, int]]:
    return {(part.node, gpu) for part in allocation for gpu in part.gpus}


def _write(change: Change) -> _Write:
    if isinstance(change, JobChange):
        relied_on = (keys.intent_job(change.job), *map(keys.intent_node, change.nodes))
        return _Write(change, keys.decision_job(change.job), change.decision, codec.encode(change.decision), relied_on)
    if isinstance(change, NodeChange):
        return _Write(change, keys.decision_node(change.node), change.decision, codec.encode(change.decision), ())
    value = codec.encode(change.reservations)
    return _Write(change, keys.DECISION_RESERVATIONS, change.reservations, value, ())


def _named(batch: Iterable[_Write]) -> list[str]:
    """The keys that a transaction of these writes compares, each once."""
    return list(dict.fromkeys(key for write in batch for key in (write.key, *write.relied_on)))


def _batches(writes: Iterable[_Write]) -> Iterator[list[_Write]]:
    """Gather writes, in order, into transactions within ``CHANGES``, ``KEYS`` and ``BYTES``."""
    batch: list[_Write] = []
    names: set[str] = set()
    size = 0
    for write in writes:
        more = {write.key, *write.relied_on}
        full = len(batch) == CHANGES or len(names | more) > KEYS or size + len(write.value) > BYTES
        if batch and full:
            yield batch
            batch, names, size = [], set(), 0
        batch.append(write)
        names |= more
        size += len(write.value)
    if batch:
        yield batch
