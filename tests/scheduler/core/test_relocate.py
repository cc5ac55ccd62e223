"""Gangs whose host goes, or may go: saved in time, booked elsewhere at once, moved where there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.types import CheckpointSpec, EventKind, NodeIntent, Notice, NoticeKind, OnLoss
from tests.builders import MINUTE, SECOND, Cluster

ENDLESS = CheckpointSpec(every_ms=30 * MINUTE, takes_ms=60 * MINUTE)


def tell(cluster: Cluster, host: str, *notices: Notice, gone_in_s: int | None = None) -> None:
    """The host's agent reports what is coming."""
    report = cluster.snapshot.nodes[host].report
    assert report is not None
    gone_at = None if gone_in_s is None else cluster.now_ms + gone_in_s * SECOND
    cluster.snapshot.set_node_report(host, replace(report, notices=notices, gone_at_ms=gone_at))
    cluster.tick(1)


def hint(kind: NoticeKind, gone_at_ms: int | None = None) -> Notice:
    return Notice(kind, f"{kind.value}-1", gone_at_ms)


def spots(*names: str) -> Cluster:
    """Spot hosts of one rack."""
    cluster = Cluster()
    for name in names:
        cluster.node(NodeIntent(name, "az1", "spots", "H100", spot="aws"))
    return cluster


def causes(cluster: Cluster, job: str) -> list[str]:
    return [e.detail["cause"] for e in cluster.events if e.kind is EventKind.STOP and e.job == job]


def held_for(cluster: Cluster, job: str) -> tuple[str, ...]:
    return next((one.nodes for one in cluster.snapshot.reservations.held if one.job == job), ())


# --- a notice


def stalled_notice() -> Cluster:
    """``job`` saves on a host that goes in two minutes, and its ranks take their time."""
    cluster = spots("s1", "s2")
    cluster.submit("job", 8)
    cluster.tick()
    assert cluster.on("job") == ["s1"]
    cluster.deaf.add("s1")
    tell(cluster, "s1", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    assert cluster.phase("job") == "STOPPING"
    return cluster


def test_a_replacement_is_booked_while_the_gang_still_saves() -> None:
    cluster = stalled_notice()
    assert held_for(cluster, "job") == ("s2",)
    told = [e for e in cluster.events if e.kind is EventKind.RESERVE]
    assert [(e.job, e.detail["hosts"], e.detail["phase"]) for e in told] == [("job", ["s2"], "STOPPING")]


def test_nobody_takes_the_booked_place_meanwhile() -> None:
    cluster = stalled_notice()
    cluster.submit("newcomer", 8)
    cluster.tick(10)
    assert cluster.phase("newcomer") == "PENDING"
    cluster.deaf.clear()
    cluster.tick(10)
    cluster.tick(1)
    assert (cluster.phase("job"), cluster.on("job")) == ("RUNNING", ["s2"])
    assert cluster.phase("newcomer") == "PENDING"
    assert held_for(cluster, "job") == ()


def test_p0_may_take_it_and_the_gang_waits_or_finds_another() -> None:
    cluster = stalled_notice()
    cluster.submit("urgent", 8, priority=0)
    cluster.tick(1)
    assert cluster.on("urgent") == ["s2"]
    cluster.deaf.clear()
    cluster.tick(10)
    assert cluster.phase("job") == "PENDING"


def test_a_place_that_goes_as_well_is_booked_anew() -> None:
    cluster = spots("s1", "s2", "s3")
    cluster.submit("job", 8)
    cluster.tick()
    cluster.deaf.add("s1")
    tell(cluster, "s1", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    assert held_for(cluster, "job") == ("s2",)
    tell(cluster, "s2", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    cluster.tick(1)
    assert held_for(cluster, "job") == ("s3",)


def test_a_gang_that_loses_one_host_books_its_other_hosts_again() -> None:
    cluster = spots("s1", "s2", "s3")
    cluster.submit("gang", 16)
    cluster.tick()
    cluster.deaf |= {"s1", "s2", "s3"}
    tell(cluster, "s1", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    assert sorted(held_for(cluster, "gang")) == ["s2", "s3"]


def test_a_dry_market_makes_it_wait_and_go_on_wherever_there_is_room() -> None:
    cluster = spots("s1")
    cluster.submit("job", 8, max_restarts=0)
    cluster.tick()
    tell(cluster, "s1", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    cluster.tick(30)
    assert cluster.phase("job") == "PENDING"
    assert held_for(cluster, "job") == ()
    cluster.snapshot.set_node_alive("s1", False)
    cluster.tick(3600)
    assert cluster.phase("job") == "PENDING"
    cluster.node(NodeIntent("od", "az1", "others", "H100"))
    cluster.tick(1)
    assert (cluster.phase("job"), cluster.on("job")) == ("RUNNING", ["od"])
    assert causes(cluster, "job") == ["spot"]
    assert cluster.snapshot.jobs["job"].decision.failures == 0


def test_a_job_that_is_to_end_with_its_place_books_none() -> None:
    cluster = spots("s1", "s2")
    cluster.submit("job", 8, on_preemption=OnLoss.FAIL)
    cluster.tick()
    cluster.deaf.add("s1")
    tell(cluster, "s1", Notice(NoticeKind.TERMINATE, "t"), gone_in_s=120)
    assert held_for(cluster, "job") == ()


# --- a hint


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        pytest.param(NoticeKind.REBALANCE, "spot", id="rebalance"),
        pytest.param(NoticeKind.MAINTENANCE, "drain", id="maintenance"),
        pytest.param(NoticeKind.REPAIR, "drain", id="repair"),
    ],
)
def test_a_hinted_host_gets_nothing_new_and_its_gang_moves_where_there_is_room(kind: NoticeKind, cause: str) -> None:
    cluster = spots("s1", "s2")
    cluster.submit("job", 8)
    cluster.tick()
    tell(cluster, "s1", hint(kind))
    cluster.tick(1)
    cluster.tick(1)
    assert (cluster.phase("job"), cluster.on("job"), causes(cluster, "job")) == ("RUNNING", ["s2"], [cause])
    assert cluster.snapshot.jobs["job"].decision.lost_ms == 0
    assert cluster.snapshot.nodes["s1"].state(cluster.now_ms).value == "CORDONED"
    cluster.submit("next", 8)
    cluster.tick(1)
    assert cluster.phase("next") == "PENDING"


def test_without_room_it_is_asked_to_save_and_stays() -> None:
    cluster = spots("s1")
    cluster.submit("job", 8)
    cluster.tick()
    tell(cluster, "s1", hint(NoticeKind.REBALANCE))
    decision = cluster.snapshot.jobs["job"].decision
    assert (decision.phase, decision.save_ms) == ("RUNNING", cluster.now_ms)
    cluster.tick(3600)
    assert cluster.snapshot.jobs["job"].decision.save_ms == decision.save_ms, "asked once"
    cluster.node(NodeIntent("od", "az1", "others", "H100"))
    cluster.tick(1)
    cluster.tick(1)
    assert cluster.on("job") == ["od"]


def test_it_takes_no_room_that_was_promised_to_others() -> None:
    cluster = spots("s1", "s2")
    cluster.submit("job", 8)
    cluster.submit("other", 8)
    cluster.tick()
    cluster.submit("waits", 8)
    cluster.tick(1)
    tell(cluster, "s1", hint(NoticeKind.REBALANCE))
    cluster.end("other")
    cluster.tick(1)
    assert (cluster.on("waits"), cluster.on("job")) == (["s2"], ["s1"])


def test_where_a_time_is_set_it_leaves_in_time_for_its_checkpoint() -> None:
    cluster = spots("s1")
    cluster.submit("job", 8)
    cluster.tick()
    tell(cluster, "s1", hint(NoticeKind.MAINTENANCE, cluster.now_ms + 15 * MINUTE))
    cluster.tick(10 * 60)
    assert cluster.phase("job") == "RUNNING"
    cluster.tick(3 * 60)
    assert cluster.phase("job") == "PENDING"
    assert cluster.snapshot.jobs["job"].decision.lost_ms == 0


def test_what_cannot_save_is_left_to_run() -> None:
    cluster = spots("s1", "s2")
    cluster.node(NodeIntent("od", "az1", "others", "H100"))
    cluster.submit("job", 8, checkpoint=ENDLESS)
    cluster.tick()
    (host,) = cluster.on("job")
    tell(cluster, host, hint(NoticeKind.MAINTENANCE, cluster.now_ms + 15 * MINUTE))
    cluster.tick(14 * 60)
    assert (cluster.phase("job"), cluster.on("job")) == ("RUNNING", [host])


def test_a_short_standstill_moves_nobody() -> None:
    cluster = spots("s1", "s2")
    cluster.submit("job", 8)
    cluster.tick()
    tell(cluster, "s1", hint(NoticeKind.FREEZE, cluster.now_ms + 15 * MINUTE))
    cluster.tick(14 * 60)
    assert cluster.on("job") == ["s1"]
    assert cluster.snapshot.jobs["job"].decision.save_ms > 0


def test_two_gangs_do_not_move_into_the_same_place() -> None:
    cluster = spots("s1", "s2", "s3")
    cluster.submit("a", 8)
    cluster.submit("b", 8)
    cluster.tick()
    for host in ("s1", "s2"):
        report = cluster.snapshot.nodes[host].report
        assert report is not None
        cluster.snapshot.set_node_report(host, replace(report, notices=(hint(NoticeKind.REBALANCE),)))
    for _ in range(3):
        cluster.tick(1)
    assert sorted(len(causes(cluster, job)) for job in "ab") == [0, 1]


def test_when_the_hint_is_over_the_host_works_as_before() -> None:
    cluster = spots("s1")
    tell(cluster, "s1", hint(NoticeKind.MAINTENANCE))
    tell(cluster, "s1")
    assert cluster.snapshot.nodes["s1"].state(cluster.now_ms).value == "READY"
    told = [e.detail["state"] for e in cluster.events if e.kind is EventKind.NOTICE]
    assert told == ["STANDS", "OVER"]
    decision = cluster.snapshot.nodes["s1"].decision
    assert decision is not None and decision.hinted_ms == 0


def test_moving_can_be_turned_off() -> None:
    cluster = spots("s1", "s2")
    cluster.policy = replace(cluster.policy, move_on_hint=False)
    cluster.submit("job", 8)
    cluster.tick()
    tell(cluster, "s1", hint(NoticeKind.REBALANCE))
    cluster.tick(60)
    assert cluster.on("job") == ["s1"]
