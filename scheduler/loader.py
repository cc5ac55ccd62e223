"""Keeps a ``Snapshot`` equal to what the store holds: reads it once, then follows the watch.

The leader's process and every web process hold one. Each key is known with the revision that last changed it, so that
a commit can compare what its decision was made from, and so that a commit applied at once is not undone or done again
when the watch brings its echo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import structlog

from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    HOLDING,
    JobDecision,
    JobIntent,
    NodeDecision,
    NodeIntent,
    NodeReport,
    PolicyIntent,
    QuotaTree,
    RepairIntent,
    ReservationIntent,
    Reservations,
    Usage,
)
from scheduler.store import codec, keys
from scheduler.store.base import Batch, Changed, Compacted, Entry, Store, StoreUnavailable, Watch

log = structlog.get_logger(__name__)

CATCH_UP_S = 5.0
"""How long ``catch_up(through=…)`` waits for a revision that the store has committed already."""


class InDoubt(StoreUnavailable):
    """What the store holds cannot be known before this process has been elected anew."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What a ``load`` or ``catch_up`` brought: the keys that changed, or everything (``afresh``)."""

    revision: int
    keys: frozenset[str] = frozenset()
    afresh: bool = False

    def __bool__(self) -> bool:
        return self.afresh or bool(self.keys)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One folder of the layout: the record in it and the snapshot's verb for it. ``record`` None: presence is all."""

    prefix: str
    record: type | None
    feed: Callable[[Snapshot, str, Any], None]


_KINDS = (
    _Kind(keys.INTENT_QUOTA, QuotaTree, lambda snapshot, _, tree: snapshot.set_quota(tree)),
    _Kind(keys.INTENT_REPAIR, RepairIntent, lambda snapshot, _, wanted: snapshot.set_repairs(wanted)),
    _Kind(keys.INTENT_POLICY, PolicyIntent, lambda *_: None),  # is kept beside the snapshot
    _Kind(keys.INTENT_NODES, NodeIntent, lambda snapshot, node, intent: snapshot.set_node_intent(node, intent)),
    _Kind(keys.DECISION_NODES, NodeDecision, lambda snapshot, node, made: snapshot.set_node_decision(node, made)),
    _Kind(keys.REPORT, NodeReport, lambda snapshot, node, report: snapshot.set_node_report(node, report)),
    _Kind(keys.ALIVE, None, lambda snapshot, node, alive: snapshot.set_node_alive(node, alive is not None)),
    _Kind(keys.INTENT_JOBS, JobIntent, lambda snapshot, job, intent: snapshot.set_job_intent(job, intent)),
    _Kind(keys.DECISION_JOBS, JobDecision, lambda snapshot, job, made: snapshot.set_job_decision(job, made)),
    _Kind(
        keys.INTENT_RESERVATIONS,
        ReservationIntent,
        lambda snapshot, name, intent: snapshot.set_reservation_intent(name, intent),
    ),
    _Kind(keys.DECISION_RESERVATIONS, Reservations, lambda snapshot, _, held: snapshot.set_reservations(held)),
    _Kind(keys.DECISION_USAGE, Usage, lambda snapshot, _, usage: snapshot.set_usage(usage)),
)
"""In the order in which a load feeds them."""

_SINGLES = frozenset(
    {keys.INTENT_QUOTA, keys.INTENT_POLICY, keys.INTENT_REPAIR, keys.DECISION_RESERVATIONS, keys.DECISION_USAGE}
)
_BY_FOLDER = {kind.prefix: kind for kind in _KINDS}


@dataclass(slots=True)
class Loader:
    """A snapshot and the revisions behind it. Not thread-safe: its owner guards it.

    ``snapshot`` is replaced by ``load()``, so take it anew after each call. ``revision`` is the store's revision up to
    which everything is in it, 0 before the first load. ``garbled`` names the keys whose value is no record, with the
    reason: the snapshot keeps the last value that was, and ``mod`` its revision, so that no commit relies on the other.
    ``unclaimed`` are the jobs that hold GPUs by their decision and have no readable intent, so that the snapshot, which
    learns from the intent what a job is, does not count those GPUs as held. ``policy`` is what people changed of the
    policy, None where nobody did; ``scheduler.policy.policy_of`` makes one of it.
    """

    store: Store
    snapshot: Snapshot = field(default_factory=Snapshot)
    revision: int = 0
    garbled: dict[str, str] = field(default_factory=dict)
    unclaimed: set[str] = field(default_factory=set)
    policy: PolicyIntent | None = None
    _mods: dict[str, int] = field(default_factory=dict)
    _watch: Watch | None = None
    _ahead: Batch | None = None
    _doubted: int = 0

    def load(self) -> Fed:
        """Read everything at one revision into a new snapshot and watch from there.

        Raises:
            StoreUnavailable: the loader is as it was, and ``catch_up()`` goes on or loads.
        """
        page = self.store.read(keys.PREFIX)
        watch = self.store.watch(keys.PREFIX, page.revision + 1)
        self.drop()
        self._watch = watch
        found: dict[str, list[Entry]] = {kind.prefix: [] for kind in _KINDS}
        for entry in page.entries:
            kind = kind_of(entry.key)
            if kind is not None:
                found[kind.prefix].append(entry)
        for kind in _KINDS:
            for entry in found[kind.prefix]:
                self._put(kind, entry)
        self.revision = page.revision
        return Fed(self.revision, afresh=True)

    def catch_up(self, wait_s: float = 0.0, through: int = 0) -> Fed:
        """Take in what the watch has brought, loading first if need be.

        Args:
            wait_s: how long to wait for a change if none is there yet.
            through: the store's revision of a commit under the prefix that must be in the snapshot at the end, such as
                the one that made this process the leader: its fencing token.

        Raises:
            StoreUnavailable: the store is away, or ``through`` did not arrive within some seconds.
            InDoubt: ``through`` is a token under which a commit's outcome is unknown.
        """
        if 0 < through <= self._doubted:
            raise InDoubt(f"a commit under fencing token {through} may still happen: resign and be elected anew")
        if self._watch is None:
            return self.load()
        changed: set[str] = set()
        try:
            self._drain(changed, wait_s, through)
        except Compacted:
            log.warning("the watch fell behind compaction, loading afresh", revision=self.revision)
            self._watch = None
            return self.load()
        except StoreUnavailable:
            if not changed or self.revision < through:
                raise  # else tell first what came; the next call says that the store is away
        if self.revision < through:
            raise StoreUnavailable(f"revision {through} did not arrive; {self.revision} is the last seen")
        return Fed(self.revision, frozenset(changed))

    def await_news(self, wait_s: float) -> bool:
        """Wait for a change and leave it to the next ``catch_up()``: readers of the snapshot need not wait meanwhile.

        Raises:
            StoreUnavailable: the store is away.
            Compacted: changes are lost; only ``load()`` helps.
        """
        if self._watch is None or self._ahead is not None:
            return True
        try:
            self._ahead = self._watch.next(wait_s)
        except Compacted:
            self._watch = None
            raise
        return self._ahead is not None

    def doubt(self, token: int) -> None:
        """A commit under this fencing token has an unknown outcome, so nothing may be planned under it any more.

        The commit may even lie on its way still and happen after a read that does not show it; what it compares is
        its own keys, not those of the next plan. Only a new leader key keeps it from happening: the next token's.
        """
        self._doubted = max(self._doubted, token)

    def mod(self, key: str) -> int:
        """The revision that last changed ``key``, as the snapshot knows it; 0 if it is absent there."""
        return self._mods.get(key, 0)

    def apply_committed(self, key: str, record: Any, revision: int) -> None:
        """Take in a record that this process has just committed at ``revision``; its echo will change nothing."""
        kind = kind_of(key)
        if kind is None:
            raise ValueError(f"{key} is no key of the snapshot")
        if revision > self._mods.get(key, 0):
            self._mods[key] = revision
            self.garbled.pop(key, None)
            self._feed(kind, key, record)

    def stop_watching(self) -> None:
        """End the watch and keep what it brought; the next ``catch_up()`` loads."""
        if self._watch is not None:
            self._watch.close()
        self._watch = self._ahead = None

    def drop(self) -> None:
        """Forget everything but a doubt; the next ``catch_up()`` loads."""
        self.stop_watching()
        self.snapshot = Snapshot()
        self.revision = 0
        self.garbled = {}
        self.unclaimed = set()
        self.policy = None
        self._mods = {}

    def _drain(self, changed: set[str], wait_s: float, through: int) -> None:
        """Apply batch after batch until the watch has no more; ``changed`` gathers the keys."""
        if self._watch is None:
            return
        until = monotonic() + CATCH_UP_S
        while batch := self._next(max(0.0, until - monotonic()) if self.revision < through else wait_s):
            wait_s = 0.0
            changed.update(change.key for change in batch.changes if self._apply(change, batch.revision))
            self.revision = max(self.revision, batch.revision)

    def _next(self, wait_s: float) -> Batch | None:
        """What ``await_news()`` took already, else what the watch brings."""
        ahead, self._ahead = self._ahead, None
        return ahead if ahead is not None or self._watch is None else self._watch.next(wait_s)

    def _apply(self, change: Changed, revision: int) -> bool:
        """Feed one change of a batch that ends at ``revision``; answers whether it was news."""
        kind = kind_of(change.key)
        known = self._mods.get(change.key, 0)
        if kind is None:
            return False
        if change.entry is not None:
            if change.entry.mod_revision <= known:
                return False
            self._put(kind, change.entry)
            return True
        if known > revision:
            return False  # deleted before this process put it anew
        return self._delete(kind, change.key)

    def _put(self, kind: _Kind, entry: Entry) -> None:
        record: Any = True
        if kind.record is not None:
            try:
                record = codec.decode(kind.record, entry.value)
            except codec.Garbled as error:
                log.error("a value in the store is no record", key=entry.key, error=str(error))
                self.garbled[entry.key] = str(error)
                return
        self.garbled.pop(entry.key, None)
        self._mods[entry.key] = entry.mod_revision
        self._feed(kind, entry.key, record)

    def _delete(self, kind: _Kind, key: str) -> bool:
        self.garbled.pop(key, None)
        if self._mods.pop(key, None) is None:
            return False
        self._feed(kind, key, None)
        return True

    def _feed(self, kind: _Kind, key: str, record: Any) -> None:
        name = _name(kind, key)
        if kind.prefix == keys.INTENT_JOBS:
            known = self.snapshot.jobs.get(name)
            if record is not None:
                self.unclaimed.discard(name)
            elif known is not None and known.held and self.mod(keys.decision_job(name)):
                self.unclaimed.add(name)
        elif kind.prefix == keys.DECISION_JOBS:
            if record is not None and record.phase in HOLDING and not self.mod(keys.intent_job(name)):
                self.unclaimed.add(name)
            else:
                self.unclaimed.discard(name)
        elif kind.prefix == keys.INTENT_POLICY:
            self.policy = record
        kind.feed(self.snapshot, name, record)


def kind_of(key: str) -> _Kind | None:
    """Which part of the layout a key belongs to; None for those that the snapshot does not hold (leader, journal)."""
    return _BY_FOLDER.get(key if key in _SINGLES else key[: key.rfind("/") + 1])


def _name(kind: _Kind, key: str) -> str:
    return key[len(kind.prefix) :]
