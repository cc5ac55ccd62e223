from __future__ import annotations

import pytest

from nodes.liveness import Renewals
from scheduler.store.base import StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.nodes.speech import Clock


class Counting(MemoryStore):
    """Notes the leases of each call."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.ms)
        self.asked: list[set[int]] = []

    def keep_alive(self, leases):  # type: ignore[no-untyped-def]
        self.asked.append(set(leases))
        return super().keep_alive(leases)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Counting:
    return Counting(clock)


def test_all_that_gathered_goes_in_one_call_and_once(store: Counting, clock: Clock) -> None:
    renewals = Renewals(store, clock.s)
    leases = {store.grant(30) for _ in range(100)}
    for lease in [*leases, *leases]:
        renewals.ask(lease)
    assert renewals.send() == frozenset()
    assert renewals.send() == frozenset()
    assert store.asked == [leases]
    assert {renewals.renewed_s(lease) for lease in leases} == {clock.s()}


def test_a_lease_that_is_gone_is_told_once_and_no_longer_counts(store: Counting, clock: Clock) -> None:
    renewals = Renewals(store, clock.s)
    lease = store.grant(30)
    renewals.granted(lease, clock.s())
    clock.pass_s(31)
    renewals.ask(lease)
    assert renewals.send() == {lease}
    assert renewals.renewed_s(lease) is None
    assert renewals.send() == frozenset()


def test_what_could_not_be_renewed_waits_for_the_next_call(store: Counting, clock: Clock) -> None:
    renewals = Renewals(store, clock.s)
    lease = store.grant(30)
    renewals.ask(lease)
    store.fail()
    with pytest.raises(StoreUnavailable):
        renewals.send()
    assert renewals.store_is_away and renewals.renewed_s(lease) is None
    store.recover()
    assert renewals.send() == frozenset()
    assert renewals.renewed_s(lease) == clock.s() and not renewals.store_is_away


@pytest.mark.parametrize(
    ("silent_s", "in_force"),
    [
        pytest.param(29, True, id="in force when the store went away"),
        pytest.param(30, False, id="run out before"),
    ],
)
def test_a_store_that_is_away_ends_no_lease(store: Counting, clock: Clock, silent_s: int, in_force: bool) -> None:
    renewals = Renewals(store, clock.s, lease_s=30)
    lease, granted_s = store.grant(30), clock.s()
    renewals.granted(lease, granted_s)
    clock.pass_s(silent_s)
    renewals.ask(lease)
    store.fail()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            renewals.send()
        clock.pass_s(600)
        assert renewals.renewed_s(lease) == (clock.s() if in_force else granted_s)


def test_back_from_an_outage_a_lease_counts_from_its_next_renewal(store: Counting, clock: Clock) -> None:
    renewals = Renewals(store, clock.s, lease_s=30)
    lease = store.grant(3600)
    renewals.granted(lease, clock.s())
    renewals.ask(lease)
    store.fail()
    with pytest.raises(StoreUnavailable):
        renewals.send()
    clock.pass_s(100)
    store.recover()
    renewals.send()
    back_s = clock.s()
    clock.pass_s(10)
    assert renewals.renewed_s(lease) == back_s


def test_what_nobody_asks_for_any_more_is_not_renewed(store: Counting, clock: Clock) -> None:
    renewals = Renewals(store, clock.s)
    lease = store.grant(30)
    renewals.ask(lease)
    renewals.forget(lease)
    renewals.send()
    assert store.asked == []
