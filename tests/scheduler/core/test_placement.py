"""Whole gangs: where they are put, and that the index answers as a plain search does."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from scheduler.core.limits import Asker, Limits
from scheduler.core.placement import Sieve, find
from scheduler.core.types import Hint, NodeIntent
from tests.builders import HOUR, Cluster, spec


@pytest.mark.parametrize(
    ("racks", "before", "gang", "hosts", "racks_used"),
    [
        pytest.param(["r1: 4xH100"], [4], 20, 3, 1, id="the remainder goes beside the half-used host"),
        pytest.param(["r1: 2xH100", "r2: 5xH100", "r3: 9xH100"], [], 32, 4, 1, id="the smallest rack that fits"),
        pytest.param(["r1: 3xH100", "r2: 5xH100", "r3: 9xH100"], [], 80, 10, 2, id="the fewest racks where none fits"),
        pytest.param(["r1: 2xH100x4", "r2: 2xH100"], [], 3, 1, 1, id="one host for what fits on one"),
        pytest.param(["r1: 6xH100x5"], [], 25, 5, 1, id="whole hosts of five"),
    ],
)
def test_a_gang_sits_as_tightly_as_it_can(
    racks: list[str], before: list[int], gang: int, hosts: int, racks_used: int
) -> None:
    cluster = Cluster(*racks)
    for at, gpus in enumerate(before):
        cluster.submit(f"before{at}", gpus)
    cluster.tick()
    cluster.submit("gang", gang)
    cluster.tick(1)
    assert len(cluster.on("gang")) == hosts
    assert len({name.split("-")[0] for name in cluster.on("gang")}) == racks_used


def test_small_jobs_fill_broken_hosts_and_leave_whole_ones() -> None:
    cluster = Cluster("r1: 4xH100")
    for name, gpus in (("four", 4), ("five", 5), ("a", 1), ("b", 1), ("c", 1), ("half", 4)):
        cluster.submit(name, gpus)
        cluster.tick(1)
    cluster.submit("big", 16)
    cluster.tick(1)
    assert cluster.phase("big") == "RUNNING"


@pytest.mark.parametrize(
    ("hint", "phase"),
    [
        pytest.param(Hint.PREFER_SAME_RACK, "RUNNING", id="a preference takes two racks"),
        pytest.param(Hint.REQUIRE_SAME_RACK, "PENDING", id="a requirement waits for one"),
        pytest.param(Hint.ANY, "RUNNING", id="any is pieced together"),
    ],
)
def test_a_hint_decides_whether_a_gang_waits_for_its_rack(hint: Hint, phase: str) -> None:
    cluster = Cluster("r1: 2xH100", "r2: 2xH100")
    cluster.submit("gang", 24, hint=hint)
    cluster.tick()
    assert cluster.phase("gang") == phase


def test_a_gang_never_spans_two_zones() -> None:
    cluster = Cluster("az1/r1: 2xH100", "az2/r2: 2xH100")
    cluster.submit("gang", 24, hint=Hint.ANY)
    cluster.tick()
    assert cluster.reason("gang") == "NOT_ENOUGH_FREE_GPUS"


def test_any_type_is_one_type() -> None:
    cluster = Cluster("r1: 2xH100", "r2: 2xA100")
    cluster.submit("gang", 24, gpu_type="any")
    cluster.submit("pair", 16, gpu_type="any")
    cluster.tick()
    assert cluster.phase("gang") == "PENDING"
    assert cluster.phase("pair") == "RUNNING"


def test_memory_runs_out_before_gpus_do() -> None:
    cluster = Cluster()
    cluster.node(NodeIntent("n1", "az1", "r1", "H100", memory_gb=1000))
    for name in "abc":
        cluster.submit(name, 1, memory_per_rank_gb=400)
    cluster.tick()
    assert len(cluster.running()) == 2
    assert cluster.reason("c") == "NOT_ENOUGH_CPU_OR_MEMORY"


def _oracle(free: list[list[int]], gpus: int, one_rack: bool) -> bool:
    """Whether the shape rule can be met: ``free`` GPUs by rack and host of eight, tried out plainly."""
    if gpus <= 8:
        return any(host >= gpus for rack in free for host in rack)
    whole, rest = divmod(gpus, 8)
    domains = free if one_rack else [list(itertools.chain(*free))]
    for hosts in domains:
        ready = sum(host == 8 for host in hosts)
        partly = sum(rest <= host < 8 for host in hosts) if rest else 0
        if ready >= whole and (not rest or ready > whole or partly):
            return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_the_index_finds_a_place_exactly_where_there_is_one(seed: int) -> None:
    draw = random.Random(seed)
    cluster = Cluster("r1: 3xH100", "r2: 4xH100", "r3: 2xH100")
    for at in range(draw.randrange(14)):
        cluster.submit(f"j{at:02}", draw.choice((1, 2, 3, 4, 8, 12)))
    cluster.tick()
    for at, name in enumerate(cluster.running()):
        if draw.random() < 0.5:
            cluster.end(name)
            cluster.tick(at)
    snapshot = cluster.snapshot
    free = [[snapshot.nodes[f"r{r}-{h}"].free_gpus for h in range(1, n + 1)] for r, n in ((1, 3), (2, 4), (3, 2))]
    for gpus in (*range(1, 9), 12, 16, 20, 24, 31, 40):
        for hint in (Hint.PREFER_SAME_RACK, Hint.REQUIRE_SAME_RACK):
            shape = snapshot.waiting.shape(replace(spec("x", gpus), hint=hint), ())
            sieve = Sieve(shape, Limits(snapshot, cluster.now_ms), Asker("x", "ml", 2), cluster.now_ms + HOUR)
            found = find(snapshot.topology, shape, sieve)
            assert (found is not None) == _oracle(free, gpus, hint is Hint.REQUIRE_SAME_RACK), (gpus, hint, free)
            if found is not None:
                assert sum(mask.bit_count() for _, mask in found.parts) == gpus
                assert all(mask & ~node.free_mask == 0 for node, mask in found.parts)
