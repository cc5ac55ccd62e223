"""The desk on the memory store: two web processes are two desks on one store."""

from __future__ import annotations

import pytest

from nodes.liveness import LEASE_S, Renewals
from nodes.protocol import SyncRequest
from nodes.sync import Outcome, Refused, SyncDesk
from scheduler.core.types import NodeReport, RankState
from scheduler.store import codec, keys
from scheduler.store.base import Delete, Put, StoreUnavailable
from scheduler.store.memory import MemoryStore
from tests.nodes.speech import FIRST_BOOT, NODE, SECOND_BOOT, Clock, gang, request


class Process:
    """A web process: its desk, and a picture that shows what lies in the store, or stands still when told to."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.store = store
        self.sees = True
        self.renewals = Renewals(store, clock.s)
        self.desk = SyncDesk(store, self.renewals, self._published, clock.s)

    def take(self, said: SyncRequest) -> bool:
        """Whether the message changed the report, by the way that the portal goes."""
        return not self.desk.admit(said) and self.desk.settle(said)

    def _published(self, node: str) -> NodeReport | None:
        entry = self.store.get(keys.report(node)) if self.sees else None
        return codec.decode(NodeReport, entry.value) if entry else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock.ms)


@pytest.fixture
def web(store: MemoryStore, clock: Clock) -> Process:
    return Process(store, clock)


def _report(store: MemoryStore) -> NodeReport:
    entry = store.get(keys.report(NODE))
    assert entry is not None
    return codec.decode(NodeReport, entry.value)


def _revision(store: MemoryStore) -> int:
    return store.read(keys.PREFIX).revision


def test_the_first_message_puts_the_report_and_the_sign_of_life_in_one_commit(web: Process, store: MemoryStore) -> None:
    assert web.take(request(1, gang()))
    report, alive = store.get(keys.report(NODE)), store.get(keys.alive(NODE))
    assert report is not None and alive is not None
    assert report.mod_revision == alive.mod_revision
    assert alive.value.decode() == FIRST_BOOT and alive.lease
    assert _report(store) == NodeReport(FIRST_BOOT, (gang(),), sequence=1)


def test_a_message_that_says_nothing_new_costs_the_store_nothing(web: Process, store: MemoryStore) -> None:
    web.take(request(1, gang()))
    before = _revision(store)
    web.sees = False
    store.fail()
    assert web.desk.admit(request(2, gang()))
    store.recover()
    assert _revision(store) == before


def test_what_changed_is_put_and_leaves_the_lease_alone(web: Process, store: MemoryStore) -> None:
    web.take(request(1, gang(state=RankState.PREPARING)))
    alive = store.get(keys.alive(NODE))
    assert web.take(request(2, gang(state=RankState.READY)))
    assert _report(store).sequence == 2
    assert store.get(keys.alive(NODE)) == alive


def _is_refused(process: Process, said: SyncRequest, outcome: Outcome) -> None:
    before = _revision(process.store)
    with pytest.raises(Refused) as caught:
        process.take(said)
    assert caught.value.outcome == outcome
    assert _revision(process.store) == before


_LATE = [
    pytest.param(request(2, gang()), Outcome.STALE, id="doubled"),
    pytest.param(request(1, gang()), Outcome.STALE, id="overtaken by a later one"),
    pytest.param(request(9, gang(), boot="00000000-00000000"), Outcome.OLD_BOOT, id="of an earlier boot"),
]


@pytest.mark.parametrize(("late", "outcome"), _LATE)
def test_a_late_message_changes_nothing(web: Process, late: SyncRequest, outcome: Outcome) -> None:
    web.take(request(1))
    web.take(request(2))
    _is_refused(web, late, outcome)


@pytest.mark.parametrize(("late", "outcome"), _LATE)
def test_nor_does_it_in_a_process_that_never_heard_of_the_node(
    web: Process, clock: Clock, late: SyncRequest, outcome: Outcome
) -> None:
    web.take(request(1, gang(state=RankState.PREPARING)))
    web.take(request(2))
    _is_refused(Process(web.store, clock), late, outcome)


@pytest.mark.parametrize(("late", "outcome"), _LATE)
def test_nor_does_it_days_later_when_the_node_is_long_gone(
    web: Process, store: MemoryStore, clock: Clock, late: SyncRequest, outcome: Outcome
) -> None:
    web.take(request(1, gang(state=RankState.PREPARING)))
    web.take(request(2))
    clock.pass_s(3 * 86_400)
    for process in (web, Process(store, clock)):
        _is_refused(process, late, outcome)
        assert store.get(keys.alive(NODE)) is None


def test_a_new_boot_takes_over_at_once_and_with_the_lease(web: Process, store: MemoryStore) -> None:
    web.take(request(7, gang()))
    lease = store.get(keys.alive(NODE)).lease  # type: ignore[union-attr]
    assert web.take(request(1, boot=SECOND_BOOT))
    alive = store.get(keys.alive(NODE))
    assert alive is not None
    assert (alive.value.decode(), alive.lease) == (SECOND_BOOT, lease)
    assert _report(store) == NodeReport(SECOND_BOOT, sequence=1)


def test_a_node_that_changes_between_processes_is_understood_by_both(web: Process, clock: Clock) -> None:
    other = Process(web.store, clock)
    assert web.take(request(1, gang("a")))
    assert other.take(request(2, gang("b")))
    assert web.take(request(3, gang("a")))
    assert _report(web.store) == NodeReport(FIRST_BOOT, (gang("a"),), sequence=3)
    assert web.desk.renewed_s(NODE) is not None and other.desk.renewed_s(NODE) is not None


def test_a_process_whose_picture_lags_finds_out_when_it_writes(web: Process, clock: Clock) -> None:
    other = Process(web.store, clock)
    web.take(request(1, gang("a")))
    other.take(request(2, gang("b")))
    web.sees = False
    assert web.take(request(3, gang("c")))
    assert _report(web.store).sequence == 3


def test_without_signs_of_life_the_node_counts_as_lost_and_the_next_sync_brings_it_back(
    web: Process, clock: Clock
) -> None:
    web.take(request(1, gang()))
    clock.pass_s(LEASE_S + 1)
    assert web.store.get(keys.alive(NODE)) is None
    assert web.desk.admit(request(2, gang()))
    gone = web.renewals.send()
    assert web.desk.holders(gone) == [NODE]
    assert web.desk.renewed_s(NODE) is None
    assert not web.take(request(3, gang()))
    assert web.store.get(keys.alive(NODE)) is not None
    assert _report(web.store).sequence == 1


def test_signs_of_life_keep_the_node_alive(web: Process, clock: Clock) -> None:
    web.take(request(1))
    for sequence in range(2, 20):
        clock.pass_s(10)
        assert web.desk.admit(request(sequence))
        assert not web.renewals.send()
    assert web.store.get(keys.alive(NODE)) is not None
    assert web.desk.renewed_s(NODE) == clock.s()


def test_while_the_store_is_away_nothing_is_taken_for_written(web: Process) -> None:
    web.take(request(1, gang("a")))
    web.store.fail()
    with pytest.raises(StoreUnavailable):
        web.take(request(2, gang("b")))
    web.store.recover()
    assert web.take(request(3, gang("b")))
    assert _report(web.store).gangs == (gang("b"),)


def test_a_report_that_cannot_be_read_is_written_over(web: Process, store: MemoryStore) -> None:
    store.commit([], [Put(keys.report(NODE), b"{")])
    assert web.take(request(1))
    assert _report(store) == NodeReport(FIRST_BOOT, sequence=1)


def test_a_report_that_was_deleted_is_put_again(web: Process, store: MemoryStore) -> None:
    web.take(request(1, gang("a")))
    store.commit([], [Delete(keys.report(NODE))])
    assert web.take(request(2, gang("b")))
    assert _report(store).sequence == 2


def test_a_host_rebuilt_under_the_name_of_a_removed_one_is_heard(web: Process, store: MemoryStore) -> None:
    web.take(request(boot=SECOND_BOOT, sequence=9))
    web.take(request(boot=SECOND_BOOT, sequence=10))
    store.commit([], [Delete(keys.report(NODE)), Delete(keys.alive(NODE))])
    assert web.take(request(boot=FIRST_BOOT, sequence=1))
    assert _report(store).boot_id == FIRST_BOOT
