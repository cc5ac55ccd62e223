"""A connection to the cluster: the members in turn, one that answers at a time.

A read may be asked of the next member when one does not answer. A commit may not: it could have happened. So a member
is probed before it is used, and what is sent to it and not answered is the caller's to find out about.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

import grpc
from aetcd import rpc

from scheduler.store.base import StoreUnavailable
from scheduler.store.etcd import messages
from scheduler.store.etcd.address import Address, Tls

PROBE_S = 1.0
IMPATIENT_S = 0.8
"""How long a call looks for a member when a moment ago none was found: longer than a channel's pause between tries."""
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A peer that went away without a word is noticed; etcd refuses pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 3_000),
)

Metadata = tuple[tuple[str, str], ...]


class Member:
    """One endpoint: its channel and the services that we call."""

    def __init__(self, endpoint: str, tls: Tls | None) -> None:
        self.endpoint = endpoint
        if tls is None:
            self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)
        else:
            self._channel = grpc.secure_channel(endpoint, _credentials(tls), options=_OPTIONS)
        self.kv = rpc.KVStub(self._channel)
        self.watch = rpc.WatchStub(self._channel)
        self.lease = rpc.LeaseStub(self._channel)
        self.auth = rpc.AuthStub(self._channel)

    def close(self) -> None:
        self._channel.close()


@dataclass(slots=True)
class _Opened:
    """What belongs to one process: gRPC's channels and threads do not survive a fork, and a lock may be held in one."""

    pid: int
    members: list[Member]
    lock: Lock = field(default_factory=Lock)
    current: int = 0
    answers: bool = False
    token: str = ""
    missed_at: float = -math.inf  # ``monotonic()`` of the last search that found no member


class Channel:
    """Calls to whichever member answers. Thread-safe; opens at first use, anew in a forked child.

    ``timeout_s`` bounds each call, the search for a member included.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._closed = False
        self._state: _Opened | None = None
        self._opening = Lock()

    def read(self, call: Callable[[Member, float, Metadata], Any]) -> Any:
        """Answer of ``call(member, timeout_s, metadata)``, asked of other members while one does not answer.

        Only for what may be done twice.

        Raises:
            StoreUnavailable: no member answered in time.
            grpc.RpcError: a member refused.
        """
        until = monotonic() + self.timeout_s
        patience_s = self.timeout_s / min(2, len(self.address.endpoints))  # leaves time for another member
        while True:
            member, metadata = self.member(until)
            try:
                return call(member, max(0.001, min(patience_s, until - monotonic())), metadata)
            except grpc.RpcError as error:
                if not messages.unanswered(error):
                    raise
                self.give_up(member)

    def member(self, until: float) -> tuple[Member, Metadata]:
        """A member that answered a moment ago and the metadata for it.

        Raises:
            StoreUnavailable: none did by ``until`` (``monotonic()`` seconds).
        """
        state = self._opened()
        if not state.answers:
            if not state.lock.acquire(timeout=max(0.0, until - monotonic())):
                raise StoreUnavailable("etcd: no member answers")
            try:
                if not state.answers:
                    self._find(state, until)
            finally:
                state.lock.release()
        return state.members[state.current], self._metadata(state)

    def give_up(self, member: Member) -> None:
        """``member`` did not answer: the next call looks for one that does, and signs in there anew."""
        state = self._opened()
        if state.members[state.current] is member:
            state.answers = False
            state.current = (state.current + 1) % len(state.members)

    def close(self) -> None:
        """Close for good."""
        self._closed = True
        state, self._state = self._state, None
        if state is not None and state.pid == os.getpid():
            for member in state.members:
                member.close()

    def _opened(self) -> _Opened:
        state = self._state
        if state is not None and state.pid == os.getpid():
            return state
        if state is not None:
            self._opening = Lock()  # the parent's may have been held when this process was forked from it
        with self._opening:
            if self._closed:
                raise StoreUnavailable("etcd: the store was closed")
            if self._state is None or self._state.pid != os.getpid():
                members = [Member(endpoint, self.address.tls) for endpoint in self.address.endpoints]
                self._state = _Opened(os.getpid(), members)
            return self._state

    def _find(self, state: _Opened, until: float) -> None:
        """Make the first member that answers a linearizable read the current one."""
        if monotonic() - state.missed_at < self.timeout_s:
            until = min(until, monotonic() + IMPATIENT_S)
        troubles: dict[str, str] = {}
        wait = False  # the first round takes a refused connection for an answer, later ones wait for it to come back
        while True:
            for _ in state.members:
                left = until - monotonic()
                if left <= 0:
                    state.missed_at = monotonic()
                    raise StoreUnavailable("etcd: no member answers: " + "; ".join(troubles.values()))
                member = state.members[state.current]
                try:
                    self._probe(state, member, min(PROBE_S, left), wait)
                except grpc.RpcError as error:
                    if not messages.unanswered(error):
                        raise messages.failure(error) from error
                    troubles[member.endpoint] = f"{member.endpoint}: {error.details()}"
                    state.current = (state.current + 1) % len(state.members)
                    continue
                state.answers, state.missed_at = True, -math.inf
                return
            wait = True

    def _probe(self, state: _Opened, member: Member, timeout_s: float, wait: bool) -> None:
        if self.address.user is not None:
            request = rpc.AuthenticateRequest(name=self.address.user, password=self.address.password)
            state.token = member.auth.Authenticate(request, timeout=timeout_s, wait_for_ready=wait).token
        request = rpc.RangeRequest(key=b"/gangway/v1/leader", keys_only=True)
        try:
            member.kv.Range(request, timeout=timeout_s, wait_for_ready=wait, metadata=self._metadata(state))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:  # which is an answer too
                raise

    def _metadata(self, state: _Opened) -> Metadata:
        return (("token", state.token),) if state.token else ()


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    files = [None if path is None else path.read_bytes() for path in (tls.ca, tls.key, tls.cert)]
    return grpc.ssl_channel_credentials(*files)
