"""A host set aside because jobs kept failing on it is taken back by a person's word."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.types import Health, NodeDecision
from tests.builders import HOUR, Cluster


def quarantined() -> Cluster:
    cluster = Cluster("r1: 1xH100", quarantine_after=3)
    cluster.now_ms = HOUR
    failures = tuple((HOUR - minutes, f"job{minutes}") for minutes in (3, 2, 1))
    cluster.snapshot.set_node_decision(
        "r1-1", NodeDecision(Health.QUARANTINED, 0, "jobs keep failing here", "", failures)
    )
    cluster.tick(1)
    assert health(cluster) is Health.QUARANTINED
    return cluster


def health(cluster: Cluster) -> Health:
    return cluster.snapshot.nodes["r1-1"].health


def pardon(cluster: Cluster, at_ms: int) -> None:
    node = cluster.snapshot.nodes["r1-1"]
    assert node.intent is not None
    cluster.snapshot.set_node_intent("r1-1", replace(node.intent, pardon_ms=at_ms))


def test_a_pardon_ends_the_quarantine_at_once() -> None:
    cluster = quarantined()
    pardon(cluster, cluster.now_ms)
    cluster.tick()
    assert health(cluster) is Health.READY
    cluster.submit("a", 8)
    cluster.tick()
    assert cluster.phase("a") == "RUNNING"


def test_what_fails_after_a_pardon_counts_again() -> None:
    cluster = quarantined()
    pardon(cluster, HOUR - 2)
    cluster.tick()
    # One of the three failures is later than the pardon.
    assert health(cluster) is Health.READY
    pardon(cluster, 0)
    cluster.tick()
    assert health(cluster) is Health.QUARANTINED
