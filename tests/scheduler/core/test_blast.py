"""The blast radius of an act: whom it stops, what they lose, who finds another place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.core import blast
from scheduler.core.types import CheckpointSpec, ReservationIntent
from tests.builders import HOUR, MINUTE, Cluster, picture

Fill = Callable[[Cluster], None]


def running(*jobs: tuple[str, int], racks: tuple[str, ...] = ("r1: 4xH100",), **wishes: object) -> Cluster:
    cluster = Cluster(*racks)
    for name, gpus in jobs:
        cluster.submit(name, gpus, **wishes)
    cluster.tick()
    cluster.tick(60)
    return cluster


def drain(cluster: Cluster, *nodes: str, from_ms: int | None = None) -> blast.Blast:
    """The radius of a drain, asked for without a trace in the snapshot."""
    before = picture(cluster.snapshot)
    work = cluster.snapshot.work
    found = blast.of_drain(cluster.snapshot, cluster.policy, nodes, cluster.now_ms, from_ms)
    assert picture(cluster.snapshot) == before
    assert cluster.snapshot.work is work
    return found


def homes(cluster: Cluster, job: str) -> list[str]:
    return [part.node for part in cluster.snapshot.jobs[job].decision.allocation]


def test_a_whole_gang_counts_even_if_one_part_is_hit() -> None:
    cluster = running(("a", 16))
    found = drain(cluster, homes(cluster, "a")[0])
    assert (found.jobs, found.gpus, found.hits[0].here) == (1, 16, 8)


def test_a_gang_fits_elsewhere_if_what_it_leaves_behind_is_counted_free() -> None:
    # Two of four hosts are its own; the drain takes one, three remain.
    cluster = running(("a", 16), ("b", 8))
    found = drain(cluster, homes(cluster, "a")[0])
    assert found.fits == 1
    assert blast.words(found) == "1 job, 16 GPUs, all can checkpoint; all fit elsewhere now"


def test_two_gangs_never_count_the_same_free_gpus() -> None:
    cluster = running(("a", 8), ("b", 8), ("c", 8))
    found = drain(cluster, *homes(cluster, "a"), *homes(cluster, "b"))
    assert (found.jobs, found.fits) == (2, 1)
    assert blast.words(found) == "2 jobs, 16 GPUs, all can checkpoint; 1 fits elsewhere now"


@pytest.mark.parametrize(
    "checkpoint",
    [
        pytest.param(None, id="cannot checkpoint"),
        pytest.param(CheckpointSpec(30 * MINUTE, 10 * MINUTE), id="takes longer than the grace"),
    ],
)
def test_work_that_cannot_be_saved_in_time_is_lost(checkpoint: CheckpointSpec | None) -> None:
    cluster = running(("a", 8), checkpoint=checkpoint)
    cluster.tick(3600)
    found = drain(cluster, *homes(cluster, "a"))
    started = cluster.snapshot.jobs["a"].decision.started_ms
    assert started is not None
    assert found.saves == 0
    assert found.lost_gpu_ms == 8 * (cluster.now_ms - started)
    assert "1 cannot checkpoint and lose" in blast.words(found)


def test_the_teams_are_told_the_hardest_hit_first() -> None:
    cluster = running(
        (
            "a",
            8,
        ),
        ("b", 16),
        racks=("r1: 4xH100",),
    )
    cluster.submit("c", 8, team="other")
    cluster.tick()
    found = drain(cluster, *cluster.snapshot.nodes)
    assert [(hit.team, hit.jobs, hit.gpus) for hit in found.teams] == [("ml", 2, 24), ("other", 1, 8)]
    assert found.fits == 0


def test_a_cordon_stops_nobody_and_closes_what_is_free() -> None:
    cluster = running(("a", 8), ("b", 4))
    found = blast.of_cordon(cluster.snapshot, cluster.snapshot.nodes)
    assert (found.jobs, found.stays, found.idle_gpus, found.hosts) == (0, 2, 20, 4)
    assert blast.words(found) == "no job is stopped; 2 jobs go on there; 20 free GPUs closed"


def test_who_will_have_ended_when_a_maintenance_begins_is_not_stopped_by_it() -> None:
    cluster = running(("short", 8), max_runtime_ms=HOUR)
    cluster.submit("long", 8)
    cluster.tick()
    found = drain(cluster, *cluster.snapshot.nodes, from_ms=cluster.now_ms + 2 * HOUR)
    assert [hit.job for hit in found.hits] == ["long"]
    assert found.stays == 1


def test_a_host_that_is_none_hits_nobody() -> None:
    assert drain(running(("a", 8)), "r9-1").hosts == 0


def test_a_reservation_gets_what_will_be_free_by_its_start() -> None:
    cluster = running(("short", 8), max_runtime_ms=HOUR)
    cluster.submit("long", 8)
    cluster.tick()
    before = picture(cluster.snapshot)
    soon = ReservationIntent("review", "ml", 32, "H100", cluster.now_ms + MINUTE, cluster.now_ms + HOUR)
    later = ReservationIntent("review", "ml", 32, "H100", cluster.now_ms + 2 * HOUR, cluster.now_ms + 3 * HOUR)
    assert blast.reservable(cluster.snapshot, cluster.policy, soon, cluster.now_ms) == 16
    assert blast.reservable(cluster.snapshot, cluster.policy, later, cluster.now_ms) == 24
    assert picture(cluster.snapshot) == before
    assert not cluster.snapshot.bookings
