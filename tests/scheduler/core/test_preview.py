"""What would become of a job that nobody submitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.alternatives import alternatives, rank
from scheduler.core.links import speed
from scheduler.core.preview import Outlook, Verdict, preview
from scheduler.core.rights import Band, Risk
from scheduler.core.scratch import Scratch, records
from scheduler.core.types import Hint, Phase, Reason, StopCause
from tests.builders import HOUR, MINUTE, SAVES, Cluster, picture, spec, team


def ask(cluster: Cluster, gpus: int = 8, **wishes) -> Outlook:
    """The outlook of a job, asked on a scratch that is the same afterwards."""
    wishes.setdefault("submitted_ms", cluster.now_ms)
    cluster.snapshot.tell_time(cluster.now_ms)
    scratch = Scratch().follow(records(cluster.snapshot))
    scratch.fade(cluster.policy.half_life_ms)  # as every picture's was when it was loaded
    before = picture(scratch)
    outlook = preview(scratch, cluster.policy, spec("~", gpus, **wishes), cluster.now_ms)
    assert picture(scratch) == before
    assert "~" not in scratch.jobs
    return outlook


def others(cluster: Cluster, gpus: int, priorities=(1, 2, 3), **wishes) -> list[tuple[str, object]]:
    wishes.setdefault("submitted_ms", cluster.now_ms)
    scratch, wish = Scratch().follow(records(cluster.snapshot)), spec("~", gpus, **wishes)
    wanted = preview(scratch, cluster.policy, wish, cluster.now_ms)
    found = rank(list(alternatives(scratch, cluster.policy, wish, cluster.now_ms, wanted, priorities)))
    return [(one.kind, getattr(one.spec, one.kind)) for one in found]


def test_it_starts_where_the_planner_then_puts_it():
    cluster = Cluster("r1: 4xH100", "r2: 4xH100")
    outlook = ask(cluster, 16)
    assert outlook.verdict is Verdict.STARTS
    assert outlook.start_ms == cluster.now_ms
    cluster.submit("a", 16)
    cluster.tick()
    assert outlook.place is not None
    assert sorted(name for name, _ in outlook.place.hosts) == cluster.on("a")
    assert outlook.place.racks == (("r1", 2, 16),)


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        pytest.param({"gpus": 72}, Reason.NEVER_FITS, id="larger than the zone"),
        pytest.param({"gpus": 24}, Reason.QUOTA_CEILING, id="above its team's ceiling"),
        pytest.param({"team": "nobody"}, Reason.QUOTA_CEILING, id="no team of the tree"),
    ],
)
def test_what_could_never_run_is_refused_with_the_reason(wishes, code):
    cluster = Cluster("r1: 4xH100", quota=[team("ml", ceiling={"H100": 16})])
    outlook = ask(cluster, **wishes)
    assert (outlook.verdict, outlook.reason) == (Verdict.REFUSED, code)
    assert outlook.words


def test_a_full_cluster_promises_the_end_of_the_limit():
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 16, max_runtime_ms=3 * HOUR)
    cluster.tick()
    outlook = ask(cluster, 16)
    assert (outlook.verdict, outlook.reason) == (Verdict.WAITS, Reason.NOT_ENOUGH_FREE_GPUS)
    assert outlook.start_ms == 3 * HOUR
    assert [(one.job, one.gpus, one.until_ms) for one in outlook.holders] == [("a", 16, 3 * HOUR)]
    assert "16 GPUs" in outlook.words


def test_a_single_gpu_is_promised_nothing_and_told_the_earliest():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8, max_runtime_ms=3 * HOUR)
    cluster.tick()
    outlook = ask(cluster, 1)
    assert (outlook.start_ms, outlook.earliest_ms) == (None, 3 * HOUR)


@pytest.mark.parametrize(
    ("saves", "lost"),
    [
        pytest.param(SAVES, 0, id="its checkpoint fits the grace"),
        pytest.param(None, 10 * MINUTE, id="it cannot save its work"),
    ],
)
def test_whom_it_would_preempt_and_what_they_lose(saves, lost):
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8, priority=3, checkpoint=saves)
    cluster.tick()
    cluster.now_ms += 10 * MINUTE
    outlook = ask(cluster, 8, priority=1)
    assert [(v.job, v.gpus, v.cause, v.lost_ms) for v in outlook.victims] == [("a", 8, StopCause.PREEMPT, lost)]
    assert outlook.reason is Reason.WAITING_FOR_PREEMPTION
    assert outlook.start_ms == cluster.now_ms + cluster.policy.grace_ms
    assert cluster.phase("a") == Phase.RUNNING


TREE = [
    team("org", floor={"H100": 16}),
    team("ml", "org", floor={"H100": 8}),
    team("other", "org"),
    team("rest", floor={"H100": 8}),
]


@pytest.mark.parametrize(
    ("gpus", "band"),
    [
        pytest.param(8, Band.FLOOR, id="inside every floor above it"),
        pytest.param(16, Band.PARTLY, id="inside the organisation's, above the team's"),
        pytest.param(24, Band.BURST, id="above all of them"),
    ],
)
def test_floor_or_burst(gpus, band):
    outlook = ask(Cluster("r1: 4xH100", quota=TREE), gpus)
    assert outlook.standing is not None
    assert outlook.standing.band is band
    assert [(level.name, level.with_job) for level in outlook.standing.levels] == [("ml", gpus), ("org", gpus)]


def test_inside_the_floor_the_risk_is_low():
    outlook = ask(Cluster("r1: 4xH100", quota=TREE), 8)
    assert outlook.exposure is not None
    assert (outlook.exposure.risk, outlook.exposure.classes) == (Risk.LOW, (0, 1))


def test_above_the_share_while_others_are_owed_the_risk_is_high():
    cluster = Cluster("r1: 3xH100", quota=TREE)
    cluster.submit("a", 24)
    cluster.tick()
    cluster.submit("b", 8, team="rest", hint=Hint.REQUIRE_SAME_HOST)
    outlook = ask(cluster, 8)
    assert outlook.exposure is not None
    assert (outlook.exposure.risk, outlook.exposure.owed) == (Risk.HIGH, (("rest", 8),))


def test_alternatives_are_what_the_planner_would_start():
    cluster = Cluster("r1: 3xH100", "r2: 2xA100")
    cluster.submit("a", 8, max_runtime_ms=3 * HOUR)
    cluster.tick()
    assert ("gpus", 16) in others(cluster, 24)


def test_a_looser_hint_starts_now_and_says_how_much_slower():
    cluster = Cluster("r1: 2xH100", "r2: 2xH100")
    cluster.submit("a", 8)
    cluster.tick()
    found = others(cluster, 24, hint=Hint.REQUIRE_SAME_RACK)
    assert ("hint", Hint.PREFER_SAME_RACK) in found


def test_a_shorter_limit_fits_before_a_promise():
    cluster = Cluster("r1: 2xH100")
    cluster.submit("a", 8, max_runtime_ms=3 * HOUR)
    cluster.submit("big", 16)
    cluster.tick(60)
    assert ("max_runtime_ms", 3 * HOUR) in others(cluster, 8)


def test_a_higher_class_is_offered_only_where_allowed():
    cluster = Cluster("r1: 1xH100")
    cluster.submit("a", 8)
    cluster.tick()
    assert ("priority", 1) in others(cluster, 8)
    assert ("priority", 0) not in others(cluster, 8)
    assert ("priority", 0) in others(cluster, 8, priorities=(0, 1, 2, 3))


def test_the_refused_are_offered_what_could_run():
    cluster = Cluster("r1: 4xH100")
    assert others(cluster, 40) == [("gpus", 32)]


def test_a_job_that_starts_now_in_its_best_place_needs_no_alternative():
    assert others(Cluster("r1: 4xH100"), 16) == []


def test_slowdown_follows_the_slowest_link():
    snapshot = Cluster("r1: 2xH100", "r2: 2xH100").snapshot
    assert speed(snapshot, ["r1-1"], 8).slowdown == 1
    assert speed(snapshot, ["r1-1", "r1-2"], 16).slowdown == 1
    assert speed(snapshot, ["r1-1", "r2-1"], 16).slowdown == pytest.approx(3)
    assert speed(snapshot, ["r1-1", "r1-2", "r2-1"], 24).slowdown == 1  # no rack holds it
    assert speed(snapshot, ["r1-1"], 1).gigabytes == 0


# --- the scratch


def test_a_scratch_follows_swaps_ends_and_arrivals():
    cluster = Cluster("r1: 2xH100", quota=TREE)
    cluster.submit("a", 8)
    cluster.submit("b", 8, team="rest")
    cluster.tick()
    scratch = Scratch()
    assert picture(scratch.follow(records(cluster.snapshot))) == picture(cluster.snapshot)
    one, two = cluster.snapshot.jobs["a"].decision, cluster.snapshot.jobs["b"].decision
    for name in ("a", "b"):
        cluster.snapshot.set_job_decision(name, replace(one, phase=Phase.PENDING, allocation=(), bound_ms=None))
    cluster.snapshot.set_job_decision("a", replace(one, attempt=2, allocation=two.allocation))
    cluster.snapshot.set_job_decision("b", replace(two, attempt=2, allocation=one.allocation))
    assert picture(scratch.follow(records(cluster.snapshot))) == picture(cluster.snapshot)
    cluster.snapshot.set_job_intent("a", None)
    cluster.submit("c", 8)
    cluster.snapshot.set_node_alive("r1-2", False)
    assert picture(scratch.follow(records(cluster.snapshot))) == picture(cluster.snapshot)
