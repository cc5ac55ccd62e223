"""What holds whatever happens: random days on a small cluster, every plan held to the invariants."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.types import HOLDING, Hint, JobIntent, Phase, QuotaNode
from tests.builders import HOUR, MINUTE, Cluster, team

TEAMS = ("a", "b", "c")
submits = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from((1, 2, 3, 4, 8, 8, 12, 16, 24)),
        "team": st.sampled_from(TEAMS),
        "priority": st.integers(0, 3),
        "hint": st.sampled_from(list(Hint)),
        "max_runtime_ms": st.sampled_from((20 * MINUTE, HOUR, 5 * HOUR)),
        "saves": st.booleans(),
    }
)
events = st.one_of(
    st.tuples(st.just("submit"), submits),
    st.tuples(st.just("end"), st.integers(0, 40)),
    st.tuples(st.just("fail"), st.integers(0, 40)),
    st.tuples(st.just("cancel"), st.integers(0, 40)),
    st.tuples(st.just("silence"), st.integers(0, 7)),
    st.tuples(st.just("return"), st.integers(0, 7)),
    st.tuples(st.just("wait"), st.sampled_from((1, 40, 300, 4000))),
)


def quota() -> list[QuotaNode]:
    return [
        team("left"),
        team("a", "left", "2", floor={"H100": 16}, ceiling={"H100": 40}),
        team("b", "left", floor={"H100": 8}),
        team("c", share="1", ceiling={"H100": 24}),
    ]


def play(cluster: Cluster, at: int, kind: str, what: Any) -> None:
    jobs, nodes = sorted(cluster.snapshot.jobs), sorted(cluster.snapshot.nodes)
    if kind == "submit":
        wishes = {key: value for key, value in what.items() if key != "saves"}
        if not what["saves"]:
            wishes["checkpoint"] = None
        cluster.submit(f"j{at:03}", **wishes)
    elif kind == "wait":
        cluster.tick(what)
    elif kind in ("silence", "return"):
        cluster.snapshot.set_node_alive(nodes[what % len(nodes)], kind == "return")
    elif jobs:
        job = cluster.snapshot.jobs[jobs[what % len(jobs)]]
        if kind == "cancel":
            cluster.snapshot.set_job_intent(job.id, JobIntent(job.spec, job.intent.version + 1, cancel=True))
        elif job.phase is Phase.RUNNING and all(cluster.snapshot.nodes[name].alive for name in cluster.on(job.id)):
            cluster.end(job.id, 0 if kind == "end" else 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=5, max_size=40))
def test_no_day_breaks_an_invariant_and_every_day_comes_to_rest(day: list[tuple[str, Any]]) -> None:
    """``Cluster.plan`` checks each plan: no GPU twice, all or nothing, ceilings, no eviction in vain, no trace left."""
    cluster = Cluster("az1/r1: 3xH100", "az1/r2: 2xH100", "az2/r3: 3xH100", quota=quota())
    for at, (kind, what) in enumerate(day):
        play(cluster, at, kind, what)
        cluster.tick(1)
        charged = sum(job.spec.gpus for job in cluster.snapshot.jobs.values() if job.phase in HOLDING)
        assert cluster.snapshot.quota.root.held.get("H100", 0) == charged
        assert sum(node.held.bit_count() for node in cluster.snapshot.nodes.values()) == charged
    for _ in range(5):
        cluster.tick(0)
        assert cluster.plan().changes == (), "an idle tick decides nothing"
