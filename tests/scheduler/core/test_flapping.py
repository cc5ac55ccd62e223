"""Hosts that come and go: set aside, on probation, and set aside for longer; a rack that falls silent as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.probation import flap_score
from scheduler.core.types import EventKind, GpuFault, Remedy
from tests.builders import MINUTE, Cluster


def blink(cluster: Cluster, host: str, seconds: float = 20) -> None:
    """The host falls silent for a while and is heard again with all that it ran."""
    cluster.snapshot.set_node_alive(host, False)
    cluster.tick(1)
    cluster.tick(seconds)
    cluster.snapshot.set_node_alive(host, True)
    cluster.tick(1)


def state(cluster: Cluster, host: str) -> str:
    return cluster.snapshot.nodes[host].state(cluster.now_ms).value


def whys(cluster: Cluster, host: str) -> list[tuple[str, str]]:
    found = [event for event in cluster.events if event.kind is EventKind.HOST and event.node == host]
    return [(event.detail["state"], event.detail["why"]) for event in found]


def flapped(**policy: Any) -> Cluster:
    cluster = Cluster("r1: 2xH100", flap_after=3, flap_quarantine_ms=10 * MINUTE, **policy)
    cluster.submit("here", 8)
    cluster.tick()
    assert cluster.on("here") == ["r1-1"]
    for _ in range(3):
        blink(cluster, "r1-1")
    return cluster


def test_a_host_that_keeps_falling_silent_takes_no_work_and_loses_none() -> None:
    cluster = flapped()
    assert state(cluster, "r1-1") == "QUARANTINED"
    assert cluster.phase("here") == "RUNNING"
    assert cluster.snapshot.jobs["here"].decision.stops == 0
    assert whys(cluster, "r1-1")[-1] == ("QUARANTINED", "keeps falling silent")


def test_it_works_on_probation_before_it_is_trusted_again() -> None:
    cluster = flapped()
    cluster.tick(600)
    assert state(cluster, "r1-1") == "PROBATION"
    assert cluster.snapshot.nodes["r1-1"].open
    cluster.tick(599)
    assert state(cluster, "r1-1") == "PROBATION"
    cluster.tick(2)
    assert state(cluster, "r1-1") == "READY"
    decision = cluster.snapshot.nodes["r1-1"].decision
    assert decision is not None
    assert (decision.relapses, decision.probation_ms, decision.flaps) == (0, 0, ())


def test_on_probation_less_is_forgiven_and_the_next_quarantine_is_twice_as_long() -> None:
    cluster = flapped()
    cluster.tick(600)
    blink(cluster, "r1-1")
    assert state(cluster, "r1-1") == "PROBATION"
    blink(cluster, "r1-1")
    assert state(cluster, "r1-1") == "QUARANTINED"
    cluster.tick(1190)
    assert state(cluster, "r1-1") == "QUARANTINED"
    cluster.tick(10)
    assert state(cluster, "r1-1") == "PROBATION"
    cluster.tick(1190)
    assert state(cluster, "r1-1") == "PROBATION"


def test_a_silence_during_the_quarantine_does_not_end_it() -> None:
    cluster = flapped()
    blink(cluster, "r1-1")
    assert state(cluster, "r1-1") == "QUARANTINED"


def test_a_pardon_wipes_the_slate() -> None:
    cluster = flapped()
    node = cluster.snapshot.nodes["r1-1"]
    assert node.intent is not None
    cluster.tick(1)
    cluster.snapshot.set_node_intent("r1-1", replace(node.intent, pardon_ms=cluster.now_ms))
    cluster.tick()
    assert state(cluster, "r1-1") == "READY"
    assert flap_score(node, cluster.policy, cluster.now_ms) == 0


def test_silences_far_apart_are_blips() -> None:
    cluster = Cluster("r1: 1xH100", flap_after=3)
    for _ in range(4):
        blink(cluster, "r1-1")
        cluster.tick(1900)
    assert state(cluster, "r1-1") == "READY"


def test_silences_of_a_cordoned_host_are_its_operators() -> None:
    cluster = Cluster("r1: 1xH100", flap_after=2)
    node = cluster.snapshot.nodes["r1-1"]
    assert node.intent is not None
    cluster.snapshot.set_node_intent("r1-1", replace(node.intent, cordon="new cables"))
    for _ in range(4):
        blink(cluster, "r1-1")
    assert state(cluster, "r1-1") == "CORDONED"


# --- a rack as a whole


def rack_of(hosts: int, silent: int, **policy: Any) -> Cluster:
    cluster = Cluster(f"r1: {hosts}xH100", "r2: 8xH100", **policy)
    cluster.submit("gang", 8 * hosts)
    cluster.tick()
    for number in range(1, silent + 1):
        cluster.snapshot.set_node_alive(f"r1-{number}", False)
    cluster.tick(1)
    return cluster


@pytest.mark.parametrize(
    ("hosts", "silent", "after_31_s"),
    [
        pytest.param(6, 6, "SUSPECT", id="all of it: the network's fault"),
        pytest.param(6, 4, "SUSPECT", id="most of it: the network's fault"),
        pytest.param(8, 4, "DOWN", id="half of it: their own"),
        pytest.param(3, 3, "DOWN", id="a small rack: their own"),
    ],
)
def test_most_of_a_rack_silent_at_once_is_given_time(hosts: int, silent: int, after_31_s: str) -> None:
    cluster = rack_of(hosts, silent)
    cluster.tick(31)
    assert state(cluster, "r1-1") == after_31_s


def test_a_rack_that_comes_back_has_lost_nothing_and_no_host_of_it_has_flapped() -> None:
    cluster = rack_of(6, 6, flap_after=1)
    cluster.tick(100)
    for number in range(1, 7):
        cluster.snapshot.set_node_alive(f"r1-{number}", True)
    cluster.tick(1)
    assert cluster.phase("gang") == "RUNNING"
    assert cluster.snapshot.jobs["gang"].decision.attempt == 1
    assert state(cluster, "r1-1") == "READY"


def test_a_rack_that_stays_silent_is_believed_in_the_end() -> None:
    cluster = rack_of(6, 6)
    cluster.tick(118)
    assert state(cluster, "r1-1") == "SUSPECT"
    assert cluster.snapshot.jobs["gang"].decision.attempt == 1
    cluster.tick(3)
    assert state(cluster, "r1-1") == "DOWN"
    assert cluster.snapshot.jobs["gang"].decision.attempt == 2
    assert cluster.on("gang")[0].startswith("r2")


def test_hosts_that_fall_silent_one_after_the_other_are_judged_one_by_one() -> None:
    cluster = Cluster("r1: 6xH100")
    for number in range(1, 7):
        cluster.snapshot.set_node_alive(f"r1-{number}", False)
        cluster.tick(40)
    assert state(cluster, "r1-5") == "DOWN"


def test_the_rack_can_be_left_out_of_it() -> None:
    cluster = rack_of(6, 6, rack_from=0)
    cluster.tick(31)
    assert state(cluster, "r1-1") == "DOWN"


# --- who is to blame


def fail(cluster: Cluster, job: str) -> None:
    cluster.end(job, code=1)
    cluster.tick(1)


def test_jobs_that_fail_wherever_they_go_are_held_against_no_host() -> None:
    cluster = Cluster("r1: 2xH100", quarantine_after=2)
    for job in "abc":
        cluster.submit(job, 8, max_restarts=1)
        cluster.tick(1)
        first = cluster.on(job)
        fail(cluster, job)
        other = "r1-2" if first == ["r1-1"] else "r1-1"
        intent = cluster.snapshot.nodes[first[0]].intent
        assert intent is not None
        cluster.snapshot.set_node_intent(first[0], replace(intent, cordon="elsewhere"))
        cluster.tick(60)
        assert cluster.on(job) == [other]
        fail(cluster, job)
        cluster.snapshot.set_node_intent(first[0], replace(intent, cordon=None))
        cluster.tick(1)
    assert (state(cluster, "r1-1"), state(cluster, "r1-2")) == ("READY", "READY")


# --- faults of GPUs


def report(cluster: Cluster, host: str, *faults: GpuFault, faulty: tuple[int, ...] = ()) -> None:
    before = cluster.snapshot.nodes[host].report
    assert before is not None
    cluster.snapshot.set_node_report(host, replace(before, faults=faults, faulty_gpus=faulty))
    cluster.tick(1)


@pytest.mark.parametrize(
    ("own", "failures", "cause"),
    [
        pytest.param(True, 1, "rank_failure", id="that programs bring about counts as the program's"),
        pytest.param(False, 0, "node_failure", id="of the memory counts as the fleet's"),
    ],
)
def test_a_fault_that_asks_for_a_restart_ends_the_attempt(own: bool, failures: int, cause: str) -> None:
    cluster = Cluster("r1: 1xH100")
    cluster.submit("job", 8)
    cluster.tick()
    report(cluster, "r1-1", GpuFault(94, Remedy.RESTART_APP, 10, 3, "job", 1, own))
    decision = cluster.snapshot.jobs["job"].decision
    assert decision.failures == failures
    assert decision.stop is not None and decision.stop.cause == cause
    cluster.tick(60)
    assert cluster.phase("job") == "RUNNING"
    assert cluster.snapshot.jobs["job"].decision.attempt == 2


def test_faults_are_told_once_with_what_they_call_for() -> None:
    cluster = Cluster("r1: 1xH100")
    first, second = GpuFault(63, Remedy.IGNORE, 10, 0), GpuFault(79, Remedy.REBOOT_HOST, 11, 3)
    report(cluster, "r1-1", first)
    report(cluster, "r1-1", first, second, faulty=(3,))
    report(cluster, "r1-1", first, second, faulty=(3,))
    told = [event.detail for event in cluster.events if event.kind is EventKind.GPU]
    assert [(one["state"], one.get("xid"), one["gpu"]) for one in told] == [
        ("XID", 63, 0),
        ("XID", 79, 3),
        ("FAULTY", None, 3),
    ]
