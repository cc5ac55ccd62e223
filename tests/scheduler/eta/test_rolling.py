"""The real plan rolled forward over drawn run times, with what comes as it came before."""

from __future__ import annotations

from random import Random

import pytest

from scheduler.core.scratch import Records, records
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import JobDecision, JobIntent, JobSpec, NodeIntent, NodeReport, Phase, Policy, Slice
from scheduler.eta import foretelling
from scheduler.eta.arrivals import Arrivals, Coming
from scheduler.eta.calibration import Calibration
from scheduler.eta.quantiles import Length
from scheduler.eta.rolling import Rolls, roll

HOUR = 3_600_000
NOW = 1000 * HOUR
ALL = tuple(range(8))


def nobody(random: Random, from_ms: int, to_ms: int) -> list[Coming]:
    return []


def spec(name: str, *, limit: int = 10 * HOUR, at: int = NOW, priority: int = 2) -> JobSpec:
    return JobSpec(name, "vision", 8, "H100", priority, limit, at)


def cluster(waiting: int = 1) -> Records:
    """One host, held by ``runs`` for an hour up to now with a limit of ten; others wait behind each other."""
    snapshot = Snapshot()
    snapshot.tell_time(NOW)
    snapshot.set_node_intent("n1", NodeIntent("n1", "az1", "r1", "H100"))
    snapshot.set_node_report("n1", NodeReport("boot"))
    snapshot.set_node_alive("n1", True)
    since = NOW - HOUR
    held = JobDecision(Phase.RUNNING, 1, 1, (Slice("n1", ALL),), "H100", bound_ms=since, started_ms=since)
    snapshot.set_job_decision("runs", held)
    snapshot.set_job_intent("runs", JobIntent(spec("runs", at=since)))
    for at in range(waiting):
        snapshot.set_job_intent(f"w{at}", JobIntent(spec(f"w{at}", at=NOW + at)))
    return records(snapshot)


def always(hours: float) -> Length:
    return Length([hours * 3600] * 5, 36_000)


def test_a_job_starts_when_the_one_before_it_is_likely_over_not_when_its_limit_is() -> None:
    lengths = {"runs": always(2), "w0": always(1)}
    told = roll(cluster(), Policy(), lengths, nobody, rolls=9, seed=1)
    middle = sorted(told.starts["w0"])[4]
    assert NOW < middle <= NOW + 2 * HOUR
    assert len(told.starts["w0"]) == told.count == 9


def test_without_a_length_a_job_runs_to_its_limit() -> None:
    told = roll(cluster(), Policy(), {}, nobody, rolls=1, seed=1)
    assert told.starts["w0"] == pytest.approx((NOW + 9 * HOUR,), abs=HOUR / 4)


def test_the_same_seed_tells_the_same() -> None:
    seen, lengths = cluster(3), {"runs": always(2), "w0": always(1), "w1": always(3)}
    assert roll(seen, Policy(), lengths, nobody, rolls=3, seed=5) == roll(
        seen, Policy(), lengths, nobody, rolls=3, seed=5
    )


def test_what_comes_and_goes_first_pushes_a_start_back() -> None:
    def pressing(random: Random, from_ms: int, to_ms: int) -> list[Coming]:
        return [Coming(spec("~0", at=NOW + 1000, priority=0), 5 * 3600.0)]

    lengths = {"runs": always(2), "w0": always(1)}
    (alone,) = roll(cluster(), Policy(preemption=False), lengths, nobody, rolls=1, seed=2).starts["w0"]
    (behind,) = roll(cluster(), Policy(preemption=False), lengths, pressing, rolls=1, seed=2).starts["w0"]
    assert behind >= alone + 4 * HOUR


def test_rolls_end_where_the_time_is_over_but_one_is_made() -> None:
    told = roll(cluster(), Policy(), {}, nobody, rolls=5, seed=1, go_on=lambda: False)
    assert told.count == 1


# --- what comes


def came(hour: int, name: str, gpus: int = 8, length_s: float = 3600.0) -> Coming:
    return Coming(JobSpec(name, "vision", gpus, "H100", 2, HOUR, hour * HOUR + 60_000), length_s)


def test_hours_of_the_same_hour_of_the_week_are_played_again() -> None:
    week = [came(hour, f"j{hour}", gpus=500 - hour % 168) for hour in range(3 * 168)]
    coming = Arrivals(week, 3 * 168 * HOUR)(Random(1), 504 * HOUR, 510 * HOUR)
    assert [one.spec.gpus for one in coming] == [500, 499, 498, 497, 496, 495]
    assert [one.spec.submitted_ms for one in coming] == [hour * HOUR + 60_000 for hour in range(504, 510)]
    assert len({one.spec.id for one in coming}) == 6


def test_within_the_first_week_the_hour_of_the_day_is_played() -> None:
    days = [came(hour, f"j{hour}", gpus=500 - hour % 24) for hour in range(72)]
    coming = Arrivals(days, 72 * HOUR)(Random(1), 72 * HOUR, 75 * HOUR)
    assert [one.spec.gpus for one in coming] == [500, 499, 498]


def test_the_many_that_all_together_are_nothing_are_not_played() -> None:
    hours = [came(hour, f"big{hour}", 64) for hour in range(48)]
    hours += [came(hour, f"small{hour}", 1, 1.0) for hour in range(48)]
    coming = Arrivals(hours, 48 * HOUR)(Random(1), 48 * HOUR, 72 * HOUR)
    assert {one.spec.gpus for one in coming} == {64}


def test_nothing_is_expected_where_nothing_came() -> None:
    assert Arrivals((), NOW)(Random(1), NOW, NOW + 9 * HOUR) == []


# --- what is told


def test_a_start_is_never_told_for_the_past_and_p90_is_never_before_p50() -> None:
    rolls = [Rolls(NOW - HOUR, NOW, 2, {"w0": (NOW - HOUR, NOW + HOUR)}), Rolls(NOW, NOW, 1, {"w0": (NOW + HOUR,)})]
    told = foretelling.foretell(NOW, 7 * 24 * HOUR, foretelling.pooled(rolls), {"w0": 8}, Calibration(()))["w0"]
    assert NOW <= told.p50_ms <= told.p90_ms
    assert told.p50_ms == NOW + HOUR and told.within


def test_a_start_that_most_rolls_do_not_reach_is_too_far_away_to_say() -> None:
    rolls = [Rolls(NOW, NOW, 3, {"w0": (NOW + HOUR,)})]
    assert not foretelling.foretell(NOW, HOUR, foretelling.pooled(rolls), {"w0": 8}, Calibration(()))["w0"].within
