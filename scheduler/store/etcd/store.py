"""``base.Store`` on etcd."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from weakref import WeakSet

import grpc
from aetcd import rpc

from scheduler.store.base import (
    Committed,
    Compare,
    Entry,
    LeaseGone,
    Operation,
    Outcome,
    Page,
    StoreUnavailable,
    Transaction,
)
from scheduler.store.etcd import messages
from scheduler.store.etcd.address import Address
from scheduler.store.etcd.channel import Channel, Member, Metadata
from scheduler.store.etcd.watch import EtcdWatch

TIMEOUT_S = 5.0
WINDOW = 32
"""Transactions of ``commit_many`` in flight: etcd writes to its log what arrives together with one fsync."""
PAGE = 5_000
"""Keys in one answer to ``read``."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A transaction on its way. ``again``: it was refused for want of a sign-in before, so nothing had been done."""

    request: Any
    member: Member
    future: Any
    again: bool = False


class EtcdStore:
    """The live state in an etcd cluster. Threads may share one; a forked child opens its own connections.

    Args:
        address: a URL as ``Address.parse`` reads it, or an ``Address``.
        timeout_s: how long a call may take before it raises ``StoreUnavailable``.
    """

    def __init__(self, address: str | Address, timeout_s: float = TIMEOUT_S) -> None:
        self._channel = Channel(Address.parse(address) if isinstance(address, str) else address, timeout_s)
        self._watches: WeakSet[EtcdWatch] = WeakSet()

    def get(self, key: str) -> Entry | None:
        answer = self._range(rpc.RangeRequest(key=key.encode()))
        return messages.entry(answer.kvs[0]) if answer.kvs else None

    def read(self, prefix: str) -> Page:
        while True:
            try:
                return self._read_at_one_revision(prefix)
            except grpc.RpcError as error:
                if not messages.compacted(error):
                    raise messages.failure(error) from error
                # the revision of the first page was compacted before the last page was read: begin again

    def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed:
        outcome = self._outcome(self._send(messages.transaction(compares, operations)))
        if isinstance(outcome, Committed):
            return outcome
        raise outcome

    def commit_many(self, commits: Sequence[Transaction]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        flying: deque[_Sent] = deque()
        for compares, operations in commits:
            if len(flying) == WINDOW:
                outcomes.append(self._outcome(flying.popleft()))
            if outcomes and isinstance(outcomes[-1], StoreUnavailable):
                break  # what has not been sent stays here
            try:
                flying.append(self._send(messages.transaction(compares, operations)))
            except StoreUnavailable:
                break
        outcomes += map(self._outcome, flying)
        outcomes += [StoreUnavailable("etcd: not sent, one before it was not answered")] * (
            len(commits) - len(outcomes)
        )
        return outcomes

    def watch(self, prefix: str, from_revision: int) -> EtcdWatch:
        if from_revision < 1:
            raise ValueError("a watch begins at revision 1 or later")
        watch = EtcdWatch(self._channel, prefix, from_revision)
        self._watches.add(watch)
        return watch

    def grant(self, ttl_s: int) -> int:
        request = rpc.LeaseGrantRequest(TTL=ttl_s)
        answer = self._call(lambda member, timeout, meta: member.lease.LeaseGrant(request, timeout, metadata=meta))
        return int(answer.ID)

    def keep_alive(self, leases: Iterable[int]) -> frozenset[int]:
        wanted = frozenset(leases)
        if not wanted:
            return frozenset()
        alive: frozenset[int] = self._call(lambda member, timeout, meta: _renew(member, wanted, timeout, meta))
        return wanted - alive

    def revoke(self, lease: int) -> None:
        request = rpc.LeaseRevokeRequest(ID=lease)
        try:
            self._call(lambda member, timeout, meta: member.lease.LeaseRevoke(request, timeout, metadata=meta))
        except LeaseGone:
            pass  # which is what was wanted

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self._channel.close()

    def _read_at_one_revision(self, prefix: str) -> Page:
        first, end, revision = prefix.encode(), messages.range_end(prefix), 0
        entries: list[Entry] = []
        while True:
            request = rpc.RangeRequest(key=first, range_end=end, limit=PAGE, revision=revision)
            answer = self._channel.read(lambda member, timeout, meta: member.kv.Range(request, timeout, metadata=meta))  # noqa: B023
            revision = revision or answer.header.revision
            entries += map(messages.entry, answer.kvs)
            if not answer.more:
                return Page(revision, tuple(entries))
            first = answer.kvs[-1].key + b"\0"

    def _range(self, request: Any) -> Any:
        return self._call(lambda member, timeout, meta: member.kv.Range(request, timeout, metadata=meta))

    def _call(self, call: Any) -> Any:
        try:
            return self._channel.read(call)
        except grpc.RpcError as error:
            raise messages.failure(error) from error

    def _send(self, request: Any) -> _Sent:
        """Send a transaction to a member that answers, once."""
        until = monotonic() + self._channel.timeout_s
        member, metadata = self._channel.member(until)
        timeout_s = max(0.001, until - monotonic())
        return _Sent(request, member, member.kv.Txn.future(request, timeout_s, metadata=metadata))

    def _outcome(self, sent: _Sent) -> Outcome:
        try:
            answer = sent.future.result()
        except grpc.RpcError as error:
            if messages.unanswered(error):
                self._channel.give_up(sent.member)
            if messages.token_expired(error) and not sent.again:
                return self._again(sent)
            failure = messages.failure(error)
            if isinstance(failure, ValueError):
                raise failure from error
            return failure
        return Committed(answer.succeeded, answer.header.revision)

    def _again(self, sent: _Sent) -> Outcome:
        try:
            return self._outcome(replace(self._send(sent.request), again=True))
        except StoreUnavailable as failure:
            return failure


def _renew(member: Member, leases: frozenset[int], timeout_s: float, metadata: Metadata) -> frozenset[int]:
    """Renew all over one stream; answers those that live."""
    requests = (rpc.LeaseKeepAliveRequest(ID=lease) for lease in leases)
    answers = member.lease.LeaseKeepAlive(requests, timeout_s, metadata=metadata)
    return frozenset(answer.ID for answer in answers if answer.TTL > 0)
