"""Recent use of what is over outlives the leader that counted it."""

from __future__ import annotations

import pytest

from scheduler.core.queue import ranked
from scheduler.core.types import Policy, Usage
from scheduler.loader import Loader
from scheduler.store import codec, keys
from scheduler.usage_kept import EVERY_MS, UsageKeeper
from tests.builders import HOUR, Cluster, team
from tests.scheduler.world import World

TWO = [team("busy"), team("calm")]


def used(hours: float = 6) -> Cluster:
    """``busy`` has held everything for some hours, and it is over."""
    cluster = Cluster("r1: 2xH100", quota=TWO)
    cluster.submit("long", 16, team="busy")
    cluster.tick()
    cluster.tick(hours * 3600)
    cluster.end("long")
    cluster.tick(1)
    return cluster


def successor(cluster: Cluster, usage: Usage | None) -> Cluster:
    """Another process that loads the same records."""
    other = Cluster("r1: 2xH100", quota=TWO)
    other.now_ms = cluster.now_ms
    other.snapshot.set_usage(usage)
    return other


@pytest.mark.parametrize(("kept", "first"), [(True, "c"), (False, "b")])
def test_who_used_the_fleet_comes_second_after_a_change_of_leader_too(kept: bool, first: str) -> None:
    cluster = used()
    ledger = cluster.snapshot.ledger
    usage = Usage(cluster.now_ms, ledger.faded(ledger.over(), cluster.now_ms)) if kept else None
    other = successor(cluster, usage)
    other.submit("b", 8, team="busy")
    other.now_ms += 1000
    other.submit("c", 8, team="calm")
    other.plan()
    assert ranked(other.snapshot, other.policy, other.now_ms)[0] == first


def test_it_goes_on_fading() -> None:
    cluster = used()
    ledger = cluster.snapshot.ledger
    usage = Usage(cluster.now_ms, ledger.faded(ledger.over(), cluster.now_ms))
    other = successor(cluster, usage)
    for snapshot, now_ms in (
        (cluster.snapshot, cluster.now_ms + 24 * HOUR),
        (other.snapshot, cluster.now_ms + 24 * HOUR),
    ):
        snapshot.tell_time(now_ms)
        snapshot.fade(Policy().half_life_ms)
        snapshot.quota.refresh(snapshot.fading, now_ms)
    before = cluster.snapshot.quota.by_name["busy"].recent["H100"]
    after = other.snapshot.quota.by_name["busy"].recent["H100"]
    assert before > 0
    assert after == pytest.approx(before, rel=0.005)


def test_what_runs_is_not_counted_twice() -> None:
    cluster = used()
    cluster.submit("again", 16, team="busy")
    cluster.tick()
    ledger, now_ms = cluster.snapshot.ledger, cluster.now_ms + HOUR
    plain = {name: dict(branch.past) for name, branch in cluster.snapshot.quota.by_name.items()}
    cluster.snapshot.set_usage(Usage(now_ms, ledger.faded(ledger.over(), now_ms)))
    for name, past in plain.items():
        for kind, amount in past.items():
            assert cluster.snapshot.quota.by_name[name].past[kind] == pytest.approx(amount, rel=0.005)


def test_it_is_written_when_something_ended_and_not_more_often_than_every_ten_minutes() -> None:
    world, cluster = World(), used()
    loader: Loader = world.loader()
    leader = world.leader()
    token = leader.hold()
    assert token is not None
    loader.catch_up(through=token)
    loader.snapshot = cluster.snapshot
    keeper, now_ms = UsageKeeper(), cluster.now_ms + EVERY_MS
    written = []
    for step in (0, 1000, EVERY_MS, 2 * EVERY_MS):
        keeper.keep(world.store, loader, token, now_ms + step)
        entry = world.store.get(keys.DECISION_USAGE)
        assert entry is not None
        written.append(entry.mod_revision)
    assert len(set(written)) == 1
    assert entry is not None
    assert set(codec.decode(Usage, entry.value).over) == {"busy"}


def test_a_deposed_leader_writes_nothing() -> None:
    world, cluster = World(), used()
    loader = world.loader()
    loader.snapshot = cluster.snapshot
    UsageKeeper().keep(world.store, loader, 12_345, cluster.now_ms + EVERY_MS)
    assert world.store.get(keys.DECISION_USAGE) is None
