"""The feed's promises: whole chains of deltas, a snapshot for whoever has none, stale said aloud."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portal.live import feed as feed_module
from portal.live.feed import BACKLOG, Feed, Message, Subscription, merged
from scheduler.picture import Listener, Touched
from scheduler.store.base import StoreUnavailable


class FakePicture:
    """As much of a picture as a feed uses; ``touch`` is what its thread would do."""

    def __init__(self) -> None:
        self.fresh = True
        self.stale_since_ms: int | None = None
        self.listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def touch(self, revision: int, **what: Any) -> None:
        for listener in list(self.listeners):
            listener(Touched(revision, **what))


class SetBoard:
    """Shows the set of jobs ever touched."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.revision = 1
        self.fails: list[Exception] = []

    def load(self) -> int:
        if self.fails:
            raise self.fails.pop()
        return self.revision

    def take(self, touched: Touched) -> tuple[int, dict[str, Any] | None]:
        if self.fails:
            raise self.fails.pop()
        new = sorted(touched.jobs - self.seen)
        self.seen |= touched.jobs
        self.revision = touched.revision
        return touched.revision, {"put": new} if new else None

    def snapshot(self) -> dict[str, Any]:
        return {"put": sorted(self.seen)}


Scene = Callable[[FakePicture, SetBoard, Feed], Awaitable[None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        picture, board = FakePicture(), SetBoard()
        feed = Feed(picture, board, interval_s=0.01)  # type: ignore[arg-type]
        await asyncio.wait_for(scene(picture, board, feed), 20)

    asyncio.run(run())


async def next_of(subscription: Subscription) -> Message:
    return await asyncio.wait_for(subscription.next(), 5)


def test_a_newcomer_gets_a_snapshot_and_then_deltas_that_follow_it() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        first = await next_of(reader)
        picture.touch(5, jobs=frozenset("a"))
        second = await next_of(reader)
        picture.touch(6, jobs=frozenset("b"))
        third = await next_of(reader)
        assert [(m.kind, m.before, m.revision, m.payload) for m in (first, second, third)] == [
            ("snapshot", None, 1, {"put": []}),
            ("delta", 1, 5, {"put": ["a"]}),
            ("delta", 5, 6, {"put": ["b"]}),
        ]
        await feed.unsubscribe(reader)

    play(scene)


def test_a_late_reader_joins_where_the_others_are() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        early = feed.subscribe()
        await next_of(early)
        picture.touch(5, jobs=frozenset("a"))
        await next_of(early)
        late = feed.subscribe()
        snapshot = await next_of(late)
        assert (snapshot.kind, snapshot.revision, snapshot.payload) == ("snapshot", 5, {"put": ["a"]})
        picture.touch(7, jobs=frozenset("b"))
        for reader in (early, late):
            delta = await next_of(reader)
            assert (delta.before, delta.revision) == (5, 7)
            await feed.unsubscribe(reader)

    play(scene)


def test_what_shows_nothing_new_moves_no_revision() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        picture.touch(5, jobs=frozenset("a"))
        await next_of(reader)
        picture.touch(6, jobs=frozenset("a"))
        picture.touch(7, jobs=frozenset("b"))
        delta = await next_of(reader)
        assert (delta.before, delta.payload) == (5, {"put": ["b"]})
        await feed.unsubscribe(reader)

    play(scene)


def test_a_burst_is_one_message() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        for revision in range(10, 60):
            picture.touch(revision, jobs=frozenset([f"j{revision}"]))
        delta = await next_of(reader)
        assert (delta.before, delta.revision, len(delta.payload["put"])) == (1, 59, 50)
        await feed.unsubscribe(reader)

    play(scene)


def test_a_reader_that_sleeps_gets_a_snapshot_in_place_of_what_it_missed() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        sleeper, awake = feed.subscribe(), feed.subscribe()
        await next_of(awake)
        for revision in range(10, 12 + BACKLOG):
            picture.touch(revision, jobs=frozenset([f"j{revision}"]))
            await next_of(awake)
        picture.touch(99, jobs=frozenset(["last"]))
        await next_of(awake)
        message = await next_of(sleeper)
        assert message.kind == "snapshot"
        assert len(message.payload["put"]) >= BACKLOG
        held = set(message.payload["put"])
        while held != board.seen:
            delta = await next_of(sleeper)
            assert delta.before == message.revision
            held |= set(delta.payload["put"])
            message = delta
        for reader in (sleeper, awake):
            await feed.unsubscribe(reader)

    play(scene)


def test_a_resync_is_answered_with_a_snapshot_to_the_asker_alone() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        asker, other = feed.subscribe(), feed.subscribe()
        for reader in (asker, other):
            await next_of(reader)
        feed.resync(asker)
        assert (await next_of(asker)).kind == "snapshot"
        picture.touch(5, jobs=frozenset("a"))
        assert (await next_of(other)).kind == "delta"
        for reader in (asker, other):
            await feed.unsubscribe(reader)

    play(scene)


def test_stale_is_told_and_a_snapshot_heals_it() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        picture.fresh, picture.stale_since_ms = False, 1234
        picture.touch(1, everything=True)
        stale = await next_of(reader)
        assert (stale.kind, stale.payload) == ("stale", {"since_ms": 1234})
        picture.fresh, board.revision = True, 8
        picture.touch(8, everything=True)
        healed = await next_of(reader)
        assert (healed.kind, healed.revision) == ("snapshot", 8)
        await feed.unsubscribe(reader)

    play(scene)


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), KeyError("a bad record")])
def test_a_failure_says_stale_and_is_tried_again(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    monkeypatch.setattr(feed_module, "PULSE_S", 0.05)

    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        board.fails.append(failure)
        picture.touch(5, jobs=frozenset("a"))
        kinds = [(await next_of(reader)).kind]
        while kinds[-1] != "snapshot":
            kinds.append((await next_of(reader)).kind)
        assert kinds[0] == "stale" or kinds[0] == "pulse"
        assert "stale" in kinds
        await feed.unsubscribe(reader)

    play(scene)


def test_a_pulse_is_sent_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "PULSE_S", 0.02)

    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        pulse = await next_of(reader)
        assert (pulse.kind, pulse.revision) == ("pulse", 1)
        await feed.unsubscribe(reader)

    play(scene)


def test_a_feed_without_readers_listens_to_nothing() -> None:
    async def scene(picture: FakePicture, board: SetBoard, feed: Feed) -> None:
        reader = feed.subscribe()
        await next_of(reader)
        assert len(picture.listeners) == 1
        await feed.unsubscribe(reader)
        assert picture.listeners == []
        assert feed.idle
        again = feed.subscribe()
        assert (await next_of(again)).kind == "snapshot"
        await feed.unsubscribe(again)

    play(scene)


def test_merged_keeps_everything_that_was_touched() -> None:
    both = merged([Touched(3, jobs=frozenset("a"), quota=True), Touched(4, nodes=frozenset("n"), everything=True)])
    assert both == Touched(4, frozenset("a"), frozenset("n"), quota=True, everything=True)
