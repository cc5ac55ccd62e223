"""The workload: valid jobs in the published proportions, at a pace that fills the fleet and never floods it."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import httpx
import pytest

from portal.demo import mix, pace, workload
from portal.demo.pace import Demand
from portal.demo.tree import teams
from scheduler.requests import JobRequest, TeamRights, parse

KINDS = {"H100": 360, "A100": 104, "L40S": 48}


def test_every_job_that_is_drawn_is_one_that_the_api_accepts() -> None:
    random = Random(1)
    rights = {team: TeamRights() for team in teams()}
    overrun = 0
    for number in range(500):
        team = random.choice(teams())
        body = mix.draw(random, team, "H100", stretch=1.0, may_p0=False, largest=64, number=number)
        parsed = parse(json.loads(json.dumps(body)), rights, KINDS, owner="robot@example.com")
        assert isinstance(parsed, JobRequest), (body, parsed)
        overrun += parsed.max_runtime_ms < float(body["env"]["GANGWAY_SIM_RUNTIME_S"]) * 1000
    assert 0 < overrun < 25, "a few run into their limit"


def test_half_of_the_jobs_want_one_gpu_and_a_few_want_several_hosts() -> None:
    random = Random(2)
    bodies = [mix.draw(random, "research-x", "H100", stretch=1, may_p0=True, largest=64, number=n) for n in range(4000)]
    sizes = Counter(body["resources"]["gpu_count"] for body in bodies)
    assert 0.54 < sizes[1] / 4000 < 0.62
    assert 0.04 < sum(count for gpus, count in sizes.items() if gpus > 8) / 4000 < 0.08
    runtimes = sorted(float(body["env"]["GANGWAY_SIM_RUNTIME_S"]) for body in bodies)
    assert 20 < runtimes[2000] < 60
    assert runtimes[-1] > 200


@pytest.mark.parametrize(
    ("demand", "factor"),
    [
        pytest.param(Demand(360, 0, 0), pace.CATCH_UP, id="an empty fleet fills quickly"),
        pytest.param(Demand(360, 288, 0), 1.0, id="at the target, arrivals make up for departures"),
        pytest.param(Demand(360, 200, 88), 1.0, id="waiting jobs count as demand"),
        pytest.param(Demand(360, 300, 60), 0.0, id="a fleet that is asked for whole gets no more"),
        pytest.param(Demand(360, 360, 400), 0.0, id="a backlog gets no more"),
        pytest.param(Demand(0, 0, 0), 0.0, id="no such GPUs"),
    ],
)
def test_the_pace_follows_the_demand(demand: Demand, factor: float) -> None:
    steady = pace.TARGET * demand.total / (mix.MEAN_GPUS * mix.MEAN_RUNTIME_S)
    assert pace.arrivals_per_s(demand, 1.0) == pytest.approx(steady * factor, abs=1e-9)


def test_a_larger_fleet_runs_longer_jobs_instead_of_more() -> None:
    assert pace.stretch(100) == 1.0
    rate = pace.TARGET * 10_000 / (mix.MEAN_GPUS * mix.MEAN_RUNTIME_S * pace.stretch(10_000))
    assert rate == pytest.approx(pace.MOST_ARRIVALS_PER_S)


@pytest.mark.parametrize("already", [pytest.param(0, id="from empty"), pytest.param(330, id="from a busy fleet")])
def test_a_simulated_fleet_settles_near_the_target(already: int) -> None:
    random = Random(3)
    running: list[tuple[float, int]] = [(random.expovariate(1 / 50.0), 1) for _ in range(already)]
    used, shares = already, []
    for second in range(1200):
        gone = [job for job in running if job[0] <= second]
        used -= sum(gpus for _, gpus in gone)
        running = [job for job in running if job[0] > second]
        rate = pace.arrivals_per_s(Demand(360, used, 0), 1.0)
        arrivals = sum(random.random() < rate / 20 for _ in range(20))
        for _ in range(arrivals):
            body = mix.draw(random, "research-x", "H100", stretch=1, may_p0=False, largest=72, number=0)
            gpus = body["resources"]["gpu_count"]
            running.append((second + float(body["env"]["GANGWAY_SIM_RUNTIME_S"]), gpus))
            used += gpus
        shares.append(used / 360)
    settled = shares[300:]
    assert sum(settled) / len(settled) == pytest.approx(pace.TARGET, abs=0.06)
    assert max(settled) < 1.2


def test_a_control_plane_that_is_away_is_told_apart_from_one_that_refuses() -> None:
    answers = iter([httpx.Response(503), httpx.Response(200, json={"gpus": {}})])
    client = httpx.Client(base_url="http://test", transport=httpx.MockTransport(lambda request: next(answers)))
    load = workload.Workload(client, {"research-x": "token"}, Random(4))
    with pytest.raises(workload.Away, match="503"):
        load.turn(1.0)
    assert load.turn(1.0) == 0
