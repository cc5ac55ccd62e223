"""The control plane's side of a sync: what an agent observed goes to the state store, once and in order.

For each node there are two keys, ``report/<node>`` and ``alive/<node>``, and any web process may write them. A report
is put only when it differs from the one that lies there, compared on its revision, and it carries the boot id and the
sequence of the message that brought it: a message that is late, doubled or out of order is recognised by every
process, with or without a memory of the node, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Lock

import structlog
from prometheus_client import Counter

from nodes import reports
from nodes.liveness import Renewals
from nodes.protocol import SyncRequest
from scheduler.core.types import NodeReport
from scheduler.store import codec, keys
from scheduler.store.base import Compare, Entry, LeaseGone, Operation, Put, Store, StoreUnavailable

TRIES = 5
"""Races with another writer of the same node that one message may lose."""


log = structlog.get_logger(__name__)


class Outcome(StrEnum):
    """What became of a sync; each is counted."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    STALE = "stale"
    OLD_BOOT = "old_boot"
    OTHER_NODE = "other_node"
    GARBAGE = "garbage"
    TOO_LARGE = "too_large"
    BAD_TOKEN = "bad_token"  # noqa: S105 - an outcome, no secret
    STORE_AWAY = "store_away"
    ENDING = "ending"


SYNCS = Counter("gangway_agent_syncs", "Syncs of node agents by what became of them", ["outcome"])
OLD_ATTEMPTS = Counter(
    "gangway_agent_old_attempts", "Attempts that agents' reports spoke of when another one was decided already"
)


class Refused(Exception):
    """The message changes nothing. ``outcome`` says why, the text says it in words."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome


@dataclass(slots=True)
class _Session:
    """What this process knows of a node: its newest message, its lease, and what lies in the store.

    ``newest`` is the boot and sequence of the last message taken in. ``report_mod`` and ``alive_mod`` are the revisions
    of the two keys, 0 where absent. ``shown``: the picture has shown the report. Not ``opened``: what lies in the store
    must be read. ``busy`` is held meanwhile.
    """

    opened: bool = False
    shown: bool = False
    newest: tuple[str, int] = ("", 0)
    lease: int = 0
    report: NodeReport | None = None
    report_mod: int = 0
    alive_boot: str = ""
    alive_mod: int = 0
    busy: Lock = field(default_factory=Lock)


class SyncDesk:
    """Takes in the syncs of all nodes that talk to this process.

    Args:
        published: the report of a node as this process' picture of the cluster shows it, None if there is none. By it
            a process notices that another one has spoken with the node since.
        monotonic_s: the clock of ``renewals``.
    """

    def __init__(
        self,
        store: Store,
        renewals: Renewals,
        published: Callable[[str], NodeReport | None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._renewals = renewals
        self._published = published
        self._monotonic_s = monotonic_s
        self._sessions: defaultdict[str, _Session] = defaultdict(_Session)

    def admit(self, request: SyncRequest) -> bool:
        """Whether the message is settled already: it says nothing new, and the node's lease only needs renewing.

        Makes no call to the store.

        Raises:
            Refused: the message is not newer than what is known of the node.
        """
        session = self._sessions[request.node]
        if self._must_read(request.node, session):
            return False
        _in_order(request, session)
        if not self._nothing_to_write(request, session):
            return False
        session.newest = _stamp(request)
        self._renewals.ask(session.lease)
        return True

    def settle(self, request: SyncRequest) -> bool:
        """Write what the message tells; answers whether the report changed. Calls the store: not for an event loop.

        Raises:
            Refused: the message is not newer than what the store holds of the node.
            StoreUnavailable: it may or may not have been written; the agent will say it again.
        """
        if self._renewals.store_is_away:
            # Known already: nobody should wait for the store's timeout to hear it.
            raise StoreUnavailable("the store does not answer")
        session = self._sessions[request.node]
        with session.busy:
            for _ in range(TRIES):
                if self._must_read(request.node, session):
                    self._read(request.node, session)
                _in_order(request, session)
                changed = session.report is None or not reports.same_observation(session.report, request.report)
                if self._write(request, session, changed):
                    return changed
        raise StoreUnavailable(f"lost the race for {request.node} {TRIES} times")

    def renewed_s(self, node: str) -> float | None:
        """Since when the node's lease has its whole time, by the monotonic clock; None if that is not known."""
        return self._renewals.renewed_s(self._sessions[node].lease)

    def holders(self, leases: frozenset[int]) -> list[str]:
        """The nodes whose lease is among these."""
        return [node for node, session in self._sessions.items() if session.lease in leases]

    def _must_read(self, node: str, session: _Session) -> bool:
        """Whether what this process remembers of the node may not be what lies in the store."""
        if not session.opened or self._renewals.renewed_s(session.lease) is None:
            return True
        published = self._published(node)
        if published is None:
            # It was there and is gone: the node was removed, and another host may have its name.
            return session.shown
        session.shown = True
        return reports.stamp(published) > session.newest

    def _nothing_to_write(self, request: SyncRequest, session: _Session) -> bool:
        return (
            session.report is not None
            and session.alive_boot == request.report.boot_id
            and reports.same_observation(session.report, request.report)
        )

    def _read(self, node: str, session: _Session) -> None:
        """Read what lies in the store of the node, and take over the lease that another process may have granted."""
        report, alive = self._store.get(keys.report(node)), self._store.get(keys.alive(node))
        self._renewals.forget(session.lease)
        session.report = _decoded(report)
        session.report_mod = report.mod_revision if report else 0
        session.alive_boot = alive.value.decode() if alive else ""
        session.alive_mod = alive.mod_revision if alive else 0
        session.lease = self._renew_now(alive.lease) if alive else 0
        session.shown = False
        if session.report is None:
            session.newest = ("", 0)
        else:
            session.newest = max(session.newest, reports.stamp(session.report))
        session.opened = True

    def _renew_now(self, lease: int) -> int:
        """The lease, if it lives; else 0."""
        asked_s = self._monotonic_s()
        if not lease or self._store.keep_alive([lease]):
            return 0
        self._renewals.granted(lease, asked_s)
        return lease

    def _write(self, request: SyncRequest, session: _Session, changed: bool) -> bool:
        """Put what differs; False where another writer was faster or the lease ran out meanwhile."""
        node, report = request.node, replace(request.report, sequence=request.sequence)
        session.opened = False
        session.lease, former = self._lease(session), session.lease
        operations: list[Operation] = []
        if changed:
            operations.append(Put(keys.report(node), codec.encode(report)))
        if session.alive_boot != report.boot_id or session.lease != former:
            operations.append(Put(keys.alive(node), report.boot_id.encode(), session.lease))
        if operations and not self._committed(node, session, operations):
            return False
        session.report, session.alive_boot, session.newest = report, report.boot_id, _stamp(request)
        session.opened = True
        self._renewals.ask(session.lease)
        return True

    def _committed(self, node: str, session: _Session, operations: list[Operation]) -> bool:
        report, alive = keys.report(node), keys.alive(node)
        compares = [Compare(report, mod=session.report_mod), Compare(alive, mod=session.alive_mod)]
        try:
            committed = self._store.commit(compares, operations)
        except LeaseGone:
            self._renewals.forget(session.lease)
            return False
        written = {operation.key for operation in operations} if committed.ok else set()
        if report in written:
            session.report_mod = committed.revision
        if alive in written:
            session.alive_mod = committed.revision
        return committed.ok

    def _lease(self, session: _Session) -> int:
        if session.lease:
            return session.lease
        asked_s = self._monotonic_s()
        lease = self._store.grant(self._renewals.lease_s)
        self._renewals.granted(lease, asked_s)
        return lease


def _stamp(request: SyncRequest) -> tuple[str, int]:
    return request.report.boot_id, request.sequence


def _decoded(entry: Entry | None) -> NodeReport | None:
    if entry is None:
        return None
    try:
        return codec.decode(NodeReport, entry.value)
    except codec.Garbled as error:
        # Only this module writes reports: what cannot be read is worth nothing and is written over.
        log.error("a report in the store is no record", key=entry.key, error=str(error))
        return None


def _in_order(request: SyncRequest, session: _Session) -> None:
    stamp, (boot_id, sequence) = _stamp(request), session.newest
    if stamp[0] < boot_id:
        raise Refused(Outcome.OLD_BOOT, f"boot {boot_id} of this node has taken over from {stamp[0]}")
    if stamp <= session.newest:
        raise Refused(Outcome.STALE, f"message {sequence} of this boot is here already")
