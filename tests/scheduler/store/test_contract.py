"""What every store promises, on the memory store and on a real etcd alike."""

from __future__ import annotations

from contextlib import suppress

import pytest

from scheduler.store.base import (
    Batch,
    Committed,
    Compacted,
    Compare,
    Delete,
    LeaseGone,
    Put,
    StoreUnavailable,
    TooLarge,
    Transaction,
    Watch,
)
from tests.scheduler.store.seam import Seam, drain, values


def test_an_absent_key_is_none(seam: Seam) -> None:
    assert seam.store.get(seam.key("a")) is None


def test_an_entry_knows_when_it_was_created_and_last_changed(seam: Seam) -> None:
    created = seam.put("a", b"1")
    changed = seam.put("a", b"2")
    entry = seam.store.get(seam.key("a"))
    assert entry is not None
    assert (entry.value, entry.create_revision, entry.mod_revision) == (b"2", created, changed)
    assert changed > created


def test_a_key_made_anew_has_a_new_create_revision(seam: Seam) -> None:
    first = seam.put("a")
    assert seam.store.commit([], [Delete(seam.key("a"))]).ok
    again = seam.put("a")
    entry = seam.store.get(seam.key("a"))
    assert entry is not None and entry.create_revision == again > first


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        pytest.param(lambda key, made, changed: Compare(key, mod=changed), True, id="the newest mod revision"),
        pytest.param(lambda key, made, changed: Compare(key, mod=made), False, id="an older mod revision"),
        pytest.param(lambda key, made, changed: Compare(key, create=made), True, id="the create revision"),
        pytest.param(lambda key, made, changed: Compare(key, create=changed), False, id="another create revision"),
        pytest.param(lambda key, made, changed: Compare(key, mod=0), False, id="absent, but it is there"),
        pytest.param(lambda key, made, changed: Compare(key + "x", mod=0), True, id="absent, and it is"),
        pytest.param(lambda key, made, changed: Compare(key + "x", create=0), True, id="never created"),
        pytest.param(lambda key, made, changed: Compare(key + "x", mod=changed), False, id="changed, but it is absent"),
    ],
)
def test_a_commit_happens_only_if_its_comparison_holds(seam: Seam, compare, holds) -> None:  # type: ignore[no-untyped-def]
    made, changed = seam.put("a", b"1"), seam.put("a", b"2")
    done = seam.store.commit([compare(seam.key("a"), made, changed)], [Put(seam.key("b"), b"done")])
    assert done.ok is holds
    assert (seam.store.get(seam.key("b")) is not None) is holds


def test_one_comparison_that_fails_keeps_every_operation_from_happening(seam: Seam) -> None:
    made = seam.put("a")
    compares = [Compare(seam.key("a"), mod=made), Compare(seam.key("b"), mod=made)]
    done = seam.store.commit(compares, [Put(seam.key("c"), b""), Delete(seam.key("a"))])
    assert done == Committed(False, made)
    assert [entry.key for entry in seam.store.read(seam.prefix).entries] == [seam.key("a")]


def test_all_operations_of_a_commit_share_one_revision(seam: Seam) -> None:
    seam.put("old")
    done = seam.store.commit([], [Put(seam.key("a"), b""), Put(seam.key("b"), b""), Delete(seam.key("old"))])
    page = seam.store.read(seam.prefix)
    assert [(entry.key, entry.mod_revision) for entry in page.entries] == [
        (seam.key("a"), done.revision),
        (seam.key("b"), done.revision),
    ]


def test_a_key_named_twice_in_one_commit_is_an_error_and_nothing_is_done(seam: Seam) -> None:
    with pytest.raises(ValueError, match=r"key|twice|same"):
        seam.store.commit([], [Put(seam.key("a"), b"1"), Put(seam.key("a"), b"2")])
    assert seam.store.get(seam.key("a")) is None


def test_deleting_what_is_not_there_changes_nothing(seam: Seam) -> None:
    before = seam.put("a")
    done = seam.store.commit([], [Delete(seam.key("b"))])
    assert done == Committed(True, before)


def test_a_prefix_is_read_by_key_and_without_its_neighbours(seam: Seam) -> None:
    for name in ("jobs/b", "jobs/a", "jobs0", "job", "jobs/a/deep", "jobs-a"):
        seam.put(name)
    page = seam.store.read(seam.key("jobs/"))
    assert [entry.key for entry in page.entries] == [seam.key(name) for name in ("jobs/a", "jobs/a/deep", "jobs/b")]
    named = seam.store.read(seam.key("jobs"))
    assert [entry.key for entry in named.entries] == sorted(
        seam.key(name) for name in ("jobs/a", "jobs/a/deep", "jobs/b", "jobs0", "jobs-a")
    )


def test_an_empty_prefix_still_tells_the_revision(seam: Seam) -> None:
    revision = seam.put("a")
    page = seam.store.read(seam.key("nothing/"))
    assert (page.revision, page.entries) == (revision, ())


def test_many_commits_at_once_are_answered_each_in_its_place(seam: Seam) -> None:
    commits: list[Transaction] = [
        ([Compare(seam.key("odd"), mod=number % 2)], [Put(seam.key(f"{number}"), b"")]) for number in range(200)
    ]
    outcomes = seam.store.commit_many(commits)
    assert [isinstance(outcome, Committed) and outcome.ok for outcome in outcomes] == [
        number % 2 == 0 for number in range(200)
    ]
    assert len(seam.store.read(seam.prefix).entries) == 100


def test_one_that_cannot_be_done_does_not_hide_the_others(seam: Seam) -> None:
    commits: list[Transaction] = [
        ([], [Put(seam.key("a"), b"")]),
        ([], [Put(seam.key("b"), b"", 12345)]),
        ([], [Put(seam.key("c"), b"")]),
    ]
    first, gone, last = seam.store.commit_many(commits)
    assert isinstance(gone, LeaseGone)
    assert isinstance(first, Committed) and first.ok
    assert isinstance(last, Committed) and last.ok


def test_a_gang_of_1250_hosts_fits_in_one_commit(seam: Seam) -> None:
    seam.store.commit([], [Put(seam.key(f"node-{number}"), b"") for number in range(1250)])
    nodes = seam.store.read(seam.prefix).entries
    compares = [Compare(entry.key, mod=entry.mod_revision) for entry in nodes]
    assert seam.store.commit(compares, [Put(seam.key("gang"), b"x" * 100_000)]).ok
    assert not seam.store.commit([*compares[:-1], Compare(nodes[-1].key, mod=1)], [Put(seam.key("other"), b"")]).ok


def test_a_value_of_1_4_mb_comes_back_whole_and_a_larger_commit_is_refused_by_name(seam: Seam) -> None:
    value = bytes(range(256)) * 5_500
    revision = seam.put("large", value)
    entry = seam.store.get(seam.key("large"))
    assert entry is not None and entry.value == value
    assert values(drain(seam.watch(revision), 1)) == [value]
    with pytest.raises(TooLarge):
        seam.put("larger", b"x" * 2_500_000)
    assert seam.store.get(seam.key("larger")) is None


# --- watches


def test_a_watch_tells_changes_in_order_from_its_revision_on(seam: Seam) -> None:
    seam.put("a", b"before")
    first = seam.put("a", b"1")
    seam.store.commit([], [Put(seam.key("b"), b"2"), Put(seam.key("c"), b"3")])
    watch = seam.watch(first)
    seam.store.commit([], [Delete(seam.key("a"))])
    seam.put("a", b"4")
    changes = drain(watch, 5)
    assert values(changes) == [b"1", b"2", b"3", None, b"4"]
    assert [change.key for change in changes] == [seam.key(name) for name in ("a", "b", "c", "a", "a")]


def test_a_watch_tells_an_entry_as_a_read_would(seam: Seam) -> None:
    lease = seam.store.grant(60)
    revision = seam.put("a", b"1", lease)
    (change,) = drain(seam.watch(revision), 1)
    assert change.entry == seam.store.get(seam.key("a"))


def test_a_watch_hears_nothing_of_other_prefixes(seam: Seam) -> None:
    revision = seam.put("a")
    watch = seam.watch(revision + 1)
    seam.store.commit([], [Put("/elsewhere/a", b"")])
    seam.put("b", b"mine")
    assert values(drain(watch, 1)) == [b"mine"]


def test_a_watch_without_news_answers_none(seam: Seam) -> None:
    watch = seam.watch(seam.put("a") + 1)
    assert watch.next(0) is None
    assert watch.next(0.05) is None


def test_what_was_read_and_what_is_watched_from_the_next_revision_on_make_one_history(seam: Seam) -> None:
    for number in range(20):
        seam.put(f"{number}", b"old")
    page = seam.store.read(seam.prefix)
    seam.put("3", b"new")
    assert [change.key for change in drain(seam.watch(page.revision + 1), 1)] == [seam.key("3")]


def test_a_batch_ends_at_the_revision_of_its_last_commit(seam: Seam) -> None:
    first = seam.put("a")
    watch = seam.watch(first)
    last = seam.put("b")
    seen = 0
    while seen < last:
        batch = watch.next(10)
        assert batch is not None
        assert batch.revision >= max(change.entry.mod_revision for change in batch.changes if change.entry)
        seen = batch.revision
    assert seen == last


def test_a_long_history_comes_whole_and_in_order(seam: Seam) -> None:
    first = seam.put("n", b"0")
    seam.store.commit_many([([], [Put(seam.key(f"{number}"), b"x" * 2000)]) for number in range(3000)])
    changes = drain(seam.watch(first), 3001, timeout_s=30)
    revisions = [change.entry.mod_revision for change in changes if change.entry]
    assert len(revisions) == 3001
    assert revisions == sorted(revisions)


def test_a_watch_goes_on_through_an_outage_and_misses_nothing(seam: Seam) -> None:
    watch = seam.watch(seam.put("a", b"1"))
    assert values(drain(watch, 1)) == [b"1"]
    for value in (b"2", b"3"):
        seam.outage()
        with pytest.raises(StoreUnavailable):
            watch.next(0.5)
        seam.recovery()
        seam.put("a", value)
        assert values(_first_batch(seam, watch)) == [value]


def _first_batch(seam: Seam, watch: Watch) -> Batch:
    """The first batch after an outage; until the watch is connected again it says that the store is away."""
    came: list[Batch] = []

    def comes() -> bool:
        with suppress(StoreUnavailable):
            came.extend(filter(None, [watch.next(0)]))
        return bool(came)

    seam.wait_until(comes)
    return came[0]


def test_a_watch_from_before_compaction_says_so(seam: Seam) -> None:
    old = seam.put("a", b"1")
    for _ in range(3):
        newest = seam.put("a", b"2")
    seam.compact(newest - 1)
    with pytest.raises(Compacted):
        seam.watch(old).next(5)
    assert values(drain(seam.watch(newest), 1)) == [b"2"]


def test_a_closed_watch_answers_none_at_once(seam: Seam) -> None:
    watch = seam.watch(seam.put("a"))
    watch.close()
    assert watch.next(60) is None


# --- leases


def test_what_is_bound_to_a_lease_goes_when_it_runs_out(seam: Seam) -> None:
    lease = seam.store.grant(2)
    revision = seam.put("a", b"", lease)
    seam.put("b")
    watch = seam.watch(revision + 1)
    seam.wait_until(lambda: seam.store.get(seam.key("a")) is None)
    assert [(change.key, change.entry is None) for change in drain(watch, 2)] == [
        (seam.key("b"), False),
        (seam.key("a"), True),
    ]
    with pytest.raises(LeaseGone):
        seam.put("c", b"", lease)


def test_a_lease_that_is_kept_alive_stays_and_one_that_is_not_is_told_to_be_gone(seam: Seam) -> None:
    kept, left = seam.store.grant(2), seam.store.grant(2)
    seam.put("kept", b"", kept)
    seam.put("left", b"", left)

    def left_is_gone() -> bool:
        assert seam.store.keep_alive([kept]) == frozenset()
        return seam.store.get(seam.key("left")) is None

    seam.wait_until(left_is_gone)
    assert seam.store.get(seam.key("kept")) is not None
    assert seam.store.keep_alive([kept, left, 4711]) == {left, 4711}


def test_many_leases_are_renewed_together(seam: Seam) -> None:
    leases = [seam.store.grant(60) for _ in range(300)]
    assert seam.store.keep_alive(leases) == frozenset()
    assert seam.store.keep_alive([]) == frozenset()


def test_a_revoked_lease_takes_its_keys_along_at_once(seam: Seam) -> None:
    lease = seam.store.grant(60)
    seam.store.commit([], [Put(seam.key("a"), b"", lease), Put(seam.key("b"), b"", lease), Put(seam.key("c"), b"")])
    seam.store.revoke(lease)
    assert [entry.key for entry in seam.store.read(seam.prefix).entries] == [seam.key("c")]
    seam.store.revoke(lease)


def test_a_key_put_again_without_its_lease_outlives_it(seam: Seam) -> None:
    first, second = seam.store.grant(60), seam.store.grant(60)
    seam.put("free", b"", first)
    seam.put("moved", b"", first)
    seam.put("free")
    seam.put("moved", b"", second)
    seam.store.revoke(first)
    assert len(seam.store.read(seam.prefix).entries) == 2
    seam.store.revoke(second)
    assert [entry.key for entry in seam.store.read(seam.prefix).entries] == [seam.key("free")]


def test_a_lease_that_is_gone_keeps_the_whole_commit_from_happening(seam: Seam) -> None:
    lease = seam.store.grant(60)
    seam.store.revoke(lease)
    with pytest.raises(LeaseGone):
        seam.store.commit([], [Put(seam.key("a"), b""), Put(seam.key("b"), b"", lease)])
    assert seam.store.read(seam.prefix).entries == ()


# --- outages


def test_a_store_that_is_away_says_so_and_comes_back_with_what_was_committed(seam: Seam) -> None:
    made = seam.put("a", b"1")
    lease = seam.store.grant(600)
    seam.outage()
    for call in (
        lambda: seam.store.get(seam.key("a")),
        lambda: seam.store.read(seam.prefix),
        lambda: seam.put("a", b"2"),
        lambda: seam.store.grant(5),
        lambda: seam.store.keep_alive([lease]),
        lambda: seam.store.revoke(lease),
        lambda: seam.watch(made),
    ):
        with pytest.raises(StoreUnavailable):
            call()
    outcomes = seam.store.commit_many([([], [Put(seam.key("b"), b"")])] * 3)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    seam.recovery()
    assert seam.store.commit([Compare(seam.key("a"), mod=made)], [Put(seam.key("a"), b"3")]).ok
    assert seam.store.keep_alive([lease]) == frozenset()
