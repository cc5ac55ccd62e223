from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.core.types import EventKind
from scheduler.leader import Leader
from scheduler.store import keys
from scheduler.store.base import Compare, Delete, Put, StoreUnavailable
from scheduler.store.etcd import EtcdStore
from scheduler.store.memory import MemoryStore
from tests.scheduler.store.seam import real_sleep
from tests.scheduler.world import TTL_S, World


@pytest.fixture
def world() -> World:
    return World()


def test_the_token_is_the_create_revision_of_the_leaders_key(world: World) -> None:
    token = world.leader("one").hold()
    entry = world.store.get(keys.LEADER)
    assert entry is not None
    assert (entry.create_revision, entry.value) == (token, b"one")


def test_an_election_is_journalled_in_its_own_commit(world: World) -> None:
    token = world.leader("one").hold()
    (entry,) = world.store.read(keys.JOURNAL).entries
    assert entry.create_revision == token
    (event,) = world.events()
    assert (event.kind, event.detail) == (EventKind.LEADER, {"name": "one"})


def test_only_one_of_two_leads(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    assert one.hold() is not None
    assert two.hold() is None
    assert two.token is None


def test_whoever_holds_on_keeps_the_token(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    token = one.hold()
    for _ in range(20):
        world.clock.sleep(TTL_S / 3)
        assert one.hold() == token
        assert two.hold() is None


def test_a_silent_leader_is_followed_once_its_lease_is_over_by_one_with_a_higher_token(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    first = one.hold()
    world.clock.sleep(TTL_S - 0.001)
    assert two.hold() is None
    world.clock.sleep(0.001)
    second = two.hold()
    assert first is not None and second is not None and second > first


def test_a_leader_that_slept_knows_by_its_own_clock_and_does_not_lead(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    one.hold()
    world.clock.sleep(TTL_S)
    assert one.token is None, "without asking anybody"
    assert two.hold() is not None
    assert one.hold() is None


def test_a_leader_that_slept_and_found_nobody_is_elected_anew(world: World) -> None:
    one = world.leader("one")
    first = one.hold()
    world.clock.sleep(2 * TTL_S)
    second = one.hold()
    assert first is not None and second is not None and second > first


def test_who_resigns_is_followed_at_once(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    one.hold()
    one.resign()
    assert one.token is None
    assert two.hold() is not None


def test_who_resigns_may_lead_again_under_a_new_token_which_bars_what_was_sent_under_the_old(world: World) -> None:
    one = world.leader("one")
    old = one.hold()
    one.resign()
    assert one.hold() != old
    assert not world.store.commit([Compare(keys.LEADER, create=old)], [Put(keys.decision_job("late"), b"")]).ok


def test_resigning_while_the_store_is_away_is_made_up_for(world: World) -> None:
    one = world.leader("one")
    old = one.hold()
    assert isinstance(world.store, MemoryStore)
    world.store.fail()
    one.resign()
    with pytest.raises(StoreUnavailable):
        one.hold()
    world.store.recover()
    new = one.hold()
    assert old is not None and new is not None and new > old


def test_a_store_that_is_away_does_not_make_a_leader(world: World) -> None:
    one = world.leader("one")
    token = one.hold()
    assert isinstance(world.store, MemoryStore)
    world.store.fail()
    world.clock.sleep(TTL_S / 2)
    with pytest.raises(StoreUnavailable):
        one.hold()
    assert one.token == token, "the lease cannot have run out yet"
    world.clock.sleep(TTL_S / 2)
    assert one.token is None


class LosesTheAnswer(MemoryStore):
    """Does the next commit and does not say so."""

    armed = False

    def commit(self, compares, operations):  # type: ignore[no-untyped-def]
        done = super().commit(compares, operations)
        if self.armed:
            self.armed = False
            raise StoreUnavailable("the answer was lost")
        return done


def test_an_election_whose_answer_was_lost_is_held_again(world: World) -> None:
    store = LosesTheAnswer(world.clock)
    one = world.leader("one", store)
    store.armed = True
    with pytest.raises(StoreUnavailable):
        one.hold()
    lost = store.get(keys.LEADER)
    assert lost is not None
    token = one.hold()
    assert token is not None and token > lost.create_revision


def test_a_leaders_key_taken_away_by_hand_is_not_put_back_by_renewing(world: World) -> None:
    one, two = world.leader("one"), world.leader("two")
    one.hold()
    world.store.commit([], [Delete(keys.LEADER)])
    assert two.hold() is not None
    one.resign()
    assert one.hold() is None


@pytest.fixture
def etcd(etcd_url: str) -> Iterator[EtcdStore]:
    store = EtcdStore(etcd_url)
    store.commit([], [Delete(keys.LEADER)])
    yield store
    store.close()


def test_on_etcd_the_lead_passes_on_by_resigning_and_by_silence(etcd: EtcdStore) -> None:
    world = World(etcd, nodes=0)
    one, two = (_quick(world, name) for name in ("one", "two"))
    first = one.hold()
    assert two.hold() is None
    one.resign()
    second = two.hold()
    assert first is not None and second is not None and second > first
    for _ in range(200):  # "two" is silent from now on
        if one.hold() is not None:
            break
        real_sleep(0.1)
    assert one.token is not None and one.token > second
    one.resign()


def _quick(world: World, name: str) -> Leader:
    return Leader(world.store, name, ids=lambda: name, now_ms=world.clock, monotonic_ms=world.clock, ttl_s=2)
