"""Repair: shown to on-call or done by itself, within windows and caps; what it spares; what on-call agreed to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core import windows
from scheduler.core.proposals import proposals
from scheduler.core.spent import price_ms
from scheduler.core.types import RepairIntent
from tests.builders import HOUR, MINUTE, SAVES, Cluster

MONDAY_MS = 4 * 24 * HOUR
"""The first Monday after the epoch, 00:00 UTC."""


def broken(hosts: int = 2, wide: int = 1, **policy: Any) -> Cluster:
    """Each host half free, and gangs of a whole host that wait."""
    policy.setdefault("repair_every_ms", MINUTE)
    cluster = Cluster(f"r1: {hosts}xH100", **policy)
    for at in range(hosts):
        cluster.submit(f"stays{at}", 4)
        cluster.submit(f"goes{at}", 4)
        cluster.tick(1)
    for at in range(hosts):
        cluster.end(f"goes{at}")
    cluster.tick(1)
    assert all(len(cluster.on(f"stays{at}")) == 1 for at in range(hosts))
    for at in range(wide):
        cluster.submit(f"wide{at}", 8)
    cluster.tick(1)
    return cluster


def shown(cluster: Cluster) -> list[tuple[str, tuple[str, ...]]]:
    found = proposals(cluster.snapshot, cluster.policy, cluster.now_ms)
    return [(one.job, tuple(move.job for move in one.moves)) for one in found]


@pytest.mark.parametrize(
    ("policy", "moved"),
    [
        pytest.param({"repair": "off"}, 0, id="off"),
        pytest.param({"repair": "propose"}, 0, id="only shown"),
        pytest.param({"repair": "auto"}, 1, id="done by itself"),
        pytest.param({"repair": "auto", "repair_windows": "Thu 00:00-Thu 02:00"}, 1, id="inside a window"),
        pytest.param({"repair": "auto", "repair_windows": "Mon 22:00-Tue 06:00"}, 0, id="outside of all windows"),
        pytest.param({"repair": "auto", "repair_gpu_hours_per_day": 1}, 1, id="within what a day may cost"),
    ],
)
def test_the_modes(policy: dict[str, Any], moved: int) -> None:
    cluster = broken(**policy)
    for _ in range(4):
        cluster.tick(60)
    assert cluster.stops() == moved
    assert (cluster.phase("wide0") == "RUNNING") is bool(moved)


def test_a_proposal_has_its_price_and_its_gain_and_leaves_no_trace() -> None:
    cluster = broken()
    (one,) = proposals(cluster.snapshot, cluster.policy, cluster.now_ms)
    assert (one.job, one.gpus, one.takes) == ("wide0", 8, (8,))
    (move,) = one.moves
    assert one.price_ms == move.price_ms == price_ms(cluster.snapshot.jobs[move.job]) == 4 * 80_000
    assert one.gain_ms is not None and one.gain_ms > 8 * 20 * HOUR
    assert one == proposals(cluster.snapshot, cluster.policy, cluster.now_ms)[0]
    cluster.tick(60)
    assert cluster.stops() == 0


def test_a_window_that_opens_wakes_the_plan() -> None:
    cluster = broken(repair="auto", repair_windows="Thu 03:00-Thu 04:00")
    wake = cluster.plan().wake_ms
    assert wake is not None and wake <= 3 * HOUR
    cluster.tick((3 * HOUR - cluster.now_ms) / 1000)
    cluster.tick(60)
    assert cluster.phase("wide0") == "RUNNING"


@pytest.mark.parametrize(
    ("caps", "moved"),
    [
        pytest.param({}, 2, id="without caps"),
        pytest.param({"repair_moves_per_hour": 1}, 1, id="one move an hour"),
        pytest.param({"repair_gpu_hours_per_day": 1}, 2, id="a GPU-hour a day is more than both cost"),
    ],
)
def test_caps(caps: dict[str, int], moved: int) -> None:
    cluster = broken(hosts=4, wide=2, repair="auto", **caps)
    for _ in range(10):
        cluster.tick(60)
    assert cluster.stops() == moved
    cluster.tick(3600)
    cluster.tick(60)
    assert cluster.stops() == 2


def test_what_a_day_may_cost_is_not_exceeded() -> None:
    cluster = Cluster("r1: 2xH100", repair="auto", repair_every_ms=MINUTE, repair_gpu_hours_per_day=1)
    cluster.submit("a", 4, checkpoint=replace(SAVES, takes_ms=100_000))
    spent = cluster.snapshot.moves
    job = cluster.snapshot.jobs["a"]
    assert spent.allows([job] * 5, cluster.policy, 0)
    assert not spent.allows([job] * 6, cluster.policy, 0)


def test_an_exempt_job_is_not_moved() -> None:
    cluster = Cluster("r1: 2xH100")
    for at in range(2):
        cluster.submit(f"stays{at}", 4, movable=False)
        cluster.submit(f"goes{at}", 4)
        cluster.tick(1)
    for at in range(2):
        cluster.end(f"goes{at}")
    cluster.submit("wide", 8)
    cluster.tick(1)
    assert shown(cluster) == []


def accept(cluster: Cluster, minutes: int = 10) -> None:
    found = proposals(cluster.snapshot, cluster.policy, cluster.now_ms)
    wishes = tuple(one.accepted(cluster.now_ms + minutes * MINUTE) for one in found)
    cluster.snapshot.set_repairs(RepairIntent(wishes))


@pytest.mark.parametrize("mode", ["off", "propose"])
def test_what_on_call_agreed_to_is_done_once(mode: str) -> None:
    cluster = broken(repair=mode)
    accept(cluster)
    for _ in range(4):
        cluster.tick(60)
    assert (cluster.stops(), cluster.phase("wide0")) == (1, "RUNNING")
    cluster.end("wide0")
    cluster.tick(60)
    cluster.submit("late", 8)
    for _ in range(4):
        cluster.tick(60)
    assert cluster.stops() == 1


def moved_on(cluster: Cluster) -> None:
    cluster.end("stays0")
    cluster.end("stays1")


def restarted(cluster: Cluster) -> None:
    for job in ("stays0", "stays1"):
        record = cluster.snapshot.jobs[job]
        cluster.snapshot.set_job_decision(job, replace(record.decision, attempt=2))
    cluster.obey()


def filled(cluster: Cluster) -> None:
    for job in ("small0", "small1"):
        cluster.submit(job, 4, priority=0)


@pytest.mark.parametrize(
    ("minutes", "change"),
    [
        pytest.param(0, lambda cluster: None, id="its time was over"),
        pytest.param(10, moved_on, id="those to move are gone"),
        pytest.param(10, restarted, id="they were started anew"),
        pytest.param(10, filled, id="where they would go is taken"),
    ],
)
def test_what_was_agreed_to_and_is_not_so_any_more_is_not_done(minutes: int, change: Any) -> None:
    cluster = broken(repair="propose")
    accept(cluster, minutes)
    change(cluster)
    for _ in range(3):
        cluster.tick(60)
    assert cluster.stops() == 0


@pytest.mark.parametrize(
    ("text", "at", "is_open"),
    [
        ("", 0, True),
        ("Mon 22:00-Tue 06:00", 22 * 60, True),
        ("Mon 22:00-Tue 06:00", 30 * 60, False),
        ("Sat 00:00-Mon 00:00", 6 * 1440 + 1439, True),
        ("Sat 00:00-Mon 00:00", 0, False),
        ("Sun 23:00-Mon 01:00", 30, True),
        ("Mon 00:00-Mon 01:00, Wed 12:00–Wed 13:00", 2 * 1440 + 750, True),
    ],
)
def test_windows_of_the_week(text: str, at: int, is_open: bool) -> None:
    assert windows.is_open(windows.read(text), MONDAY_MS + at * MINUTE) is is_open


@pytest.mark.parametrize("text", ["Monday", "Mon 25:00-Tue 01:00", "Mon 01:00-Mon 01:00", "Mon 1:0-Tue 1:00", "1-2"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no window|empty|no time of day"):
        windows.read(text)
