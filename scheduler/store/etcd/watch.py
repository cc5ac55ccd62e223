"""A watch that outlives its connections.

A thread of its own reads the stream. When the stream breaks, it opens another one, on another member if need be, from
the revision after the last whole commit that it has seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from time import monotonic
from typing import Any

import grpc
from aetcd import rpc

from scheduler.store.base import Batch, Changed, Compacted, StoreUnavailable
from scheduler.store.etcd import messages
from scheduler.store.etcd.channel import Channel, Member, Metadata

BUFFER = 1_000
"""Batches that wait to be taken before the stream is read no further: a slow taker slows etcd, not memory."""
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0)
ASK_S = 2.0
"""How often etcd is asked for a sign of life: a peer that froze keeps its connection, and gRPC's pings miss it."""
SILENT_S = 6.0
"""A stream on which nothing came for so long counts as broken."""
# A member cut off from its cluster ends the stream instead of keeping it silent.
_REQUIRE_LEADER = (("hasleader", "true"),)
_ASKED_FOR = -1
"""The watch id under which etcd answers a request for progress."""


class EtcdWatch:
    """``base.Watch`` on etcd."""

    def __init__(self, channel: Channel, prefix: str, from_revision: int) -> None:
        self._channel = channel
        self._prefix = prefix
        self._resume = from_revision
        self._news = Condition()
        self._batches: deque[Batch] = deque()
        self._fragments: list[Any] = []
        self._heard_at = 0.0
        self._connected = False
        self._closed = False
        self._compacted: Compacted | None = None
        self._trouble = "not connected yet"
        self._call: Any = None
        self._reader = Thread(target=self._run, name=f"watch {prefix}", daemon=True)
        self._reader.start()
        self._await_first_connection()

    def next(self, timeout_s: float) -> Batch | None:
        with self._news:
            self._news.wait_for(lambda: self._batches or self._closed or self._compacted, timeout_s)
            if self._closed:
                return None
            if self._batches:
                batch = self._batches.popleft()
                self._news.notify_all()
                return batch
            if self._compacted is not None:
                raise self._compacted
            self._listen_for_life()
            if not self._connected:
                raise StoreUnavailable(f"etcd: the watch is broken: {self._trouble}")
            return None

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()
            if self._call is not None:
                self._call.cancel()

    def _listen_for_life(self) -> None:
        """Break a stream that has gone silent; the reader opens another."""
        if self._connected and monotonic() - self._heard_at > SILENT_S:
            self._connected = False
            self._trouble = f"etcd has said nothing for {SILENT_S:.0f} s"
            if self._call is not None:
                self._call.cancel()

    def _await_first_connection(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._connected or self._compacted, self._channel.timeout_s)
            if self._connected or self._compacted:
                return
        self.close()
        raise StoreUnavailable(f"etcd: no watch: {self._trouble}")

    # --- the reader's thread

    def _run(self) -> None:
        tries = 0
        while not self._over():
            try:
                self._follow(*self._channel.member(monotonic() + self._channel.timeout_s))
            except (grpc.RpcError, StoreUnavailable) as error:
                tries = 0 if self._connected else tries + 1
                self._disconnected(_words(error))
                with self._news:
                    self._news.wait_for(self._over, BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
            except ValueError:
                if not self._over():  # gRPC's word for a channel that was closed at this moment
                    raise

    def _over(self) -> bool:
        return self._closed or self._compacted is not None

    def _follow(self, member: Member, metadata: Metadata) -> None:
        """Read one stream until it breaks.

        Raises:
            grpc.RpcError: the connection broke.
            StoreUnavailable: etcd ended it.
        """
        requests: SimpleQueue[Any] = SimpleQueue()
        requests.put(rpc.WatchRequest(create_request=self._request()))
        call = member.watch.Watch(_spoken(requests), metadata=metadata + _REQUIRE_LEADER)
        with self._news:
            self._call = call
            if self._closed:
                call.cancel()
        self._fragments = []
        reason = ""
        try:
            for answer in call:
                self._take(answer)
                if answer.canceled:
                    reason = answer.cancel_reason
                    break
        except grpc.RpcError:
            if not self._over():
                self._channel.give_up(member)
            raise
        finally:
            requests.put(None)
            call.cancel()
        self._channel.give_up(member)
        raise StoreUnavailable(reason or "etcd ended the watch")

    def _request(self) -> Any:
        return rpc.WatchCreateRequest(
            key=self._prefix.encode(),
            range_end=messages.range_end(self._prefix),
            start_revision=self._resume,
            progress_notify=True,
            fragment=True,
        )

    def _take(self, answer: Any) -> None:
        with self._news:
            if answer.compact_revision:
                self._compacted = Compacted(
                    f"revision {self._resume} is compacted, {answer.compact_revision} is the oldest kept"
                )
            elif not answer.canceled:
                self._connected = True
                self._take_events(answer)
            self._news.notify_all()
            self._news.wait_for(lambda: len(self._batches) < BUFFER or self._over())
            self._heard_at = monotonic()

    def _take_events(self, answer: Any) -> None:
        if answer.watch_id == _ASKED_FOR:
            return  # a sign of life; its revision may be ahead of events that are still to come (etcd issue 15220)
        self._fragments += answer.events
        if answer.fragment:
            return
        events, self._fragments = self._fragments, []
        if events:
            # not the header's: while the watch catches up, that is ahead of the events
            revision = events[-1].kv.mod_revision
            self._batches.append(Batch(revision, tuple(map(_changed, events))))
            self._resume = revision + 1
        elif not answer.created:
            self._resume = max(self._resume, answer.header.revision + 1)  # nothing happened up to there

    def _disconnected(self, trouble: str) -> None:
        with self._news:
            self._connected = False
            self._trouble = trouble


def _changed(event: Any) -> Changed:
    if event.type == rpc.Event.DELETE:
        return Changed(event.kv.key.decode(), None)
    found = messages.entry(event.kv)
    return Changed(found.key, found)


def _spoken(requests: SimpleQueue[Any]) -> Iterator[Any]:
    """The requests of a stream, and in their pauses one for a sign of life; it stays open until None is put."""
    while True:
        try:
            request = requests.get(timeout=ASK_S)
        except Empty:
            request = rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())
        if request is None:
            return
        yield request


def _words(error: grpc.RpcError | StoreUnavailable) -> str:
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name.lower()}: {error.details()}"
    return str(error)
