"""Eight ranks on four agents train for real: preempted, outliving an agent, robbed of a host, and in the end they
have the weights of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents import HostAgent
from tests.e2e.hosts import Hosts
from tests.e2e.training import URGENT_TEAM, Training, job, state, submit
from tests.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS, SAVE_EVERY = 600, 8
STEP_S = 0.3
"""Undisturbed, it would take three minutes; it is told to hurry once everything has happened to it."""


def training(client: httpx.Client, objects: Any, pace: Path, step_s: float) -> Training:
    return Training.submitted(client, objects, pace, gpus=8, steps=STEPS, save_every=SAVE_EVERY, step_s=step_s)


def test_whatever_happens_to_a_training_it_ends_with_the_weights_of_an_undisturbed_run(
    bare_system: System, hosts: Hosts, objects: Any, tmp_path: Path
) -> None:
    agents = hosts.start("trains-1", "trains-2", "trains-3", "trains-4")
    with bare_system.client("admin") as client:
        disturbed = training(client, objects, tmp_path / "disturbed", STEP_S)
        until(lambda: disturbed.runs(1) and bool(disturbed.saved(1)), 120, disturbed.story)

        an_agent_that_starts_again_goes_on_with_its_ranks(agents[1], disturbed)
        the_portal_and_the_leader_die(bare_system, disturbed)
        a_more_urgent_job_takes_its_place(client, disturbed)
        until(lambda: disturbed.runs(2) and bool(disturbed.saved(2)), 120, disturbed.story)
        a_host_goes_away(agents[2], disturbed)
        until(lambda: bool(disturbed.saved(3)), 120, disturbed.story)
        disturbed.hurry()

        until(lambda: disturbed.state() == "SUCCEEDED", 180, disturbed.story)
        assert disturbed.attempts() == 3, disturbed.story()
        no_step_is_skipped(disturbed)
        undisturbed = training(client, objects, tmp_path / "undisturbed", 0.0)
        until(lambda: undisturbed.state() == "SUCCEEDED", 120, undisturbed.story)
        assert disturbed.weights(STEPS) == undisturbed.weights(STEPS)


def an_agent_that_starts_again_goes_on_with_its_ranks(agent: HostAgent, training: Training) -> None:
    before = {process.pid for process in agent.ranks()}
    assert len(before) == 4, "two ranks and their keepers"
    assert agent.stop() == 0
    agent.start()
    saved = len(training.saved(1))
    until(lambda: len(training.saved(1)) > saved, 60, training.story)
    assert {process.pid for process in agent.ranks()} == before
    assert training.runs(1)


def the_portal_and_the_leader_die(system: System, training: Training) -> None:
    """Both are started again by their supervisor; the ranks never hear of it."""
    before = system.children()
    for name in ("web", "worker-scheduler"):
        before[name].kill()
    until(lambda: _started_anew(system, before), 60, lambda: system.output)
    until(lambda: _answers(training.client), 60, lambda: system.output)
    saved = len(training.saved(1))
    until(lambda: len(training.saved(1)) > saved, 60, training.story)
    assert training.runs(1)


def a_more_urgent_job_takes_its_place(client: httpx.Client, training: Training) -> None:
    """It is asked to save, acknowledges, and its ranks end; nothing of its work is lost."""
    urgent = submit(client, job("urgent", URGENT_TEAM, ["sleep", "1"], 8, priority="P0"))
    until(lambda: state(client, urgent) == "SUCCEEDED", 120, training.story)
    (stop,) = training.events("stop", 1)
    assert (stop["detail"]["cause"], stop["detail"]["for"]) == ("preempt", urgent)
    last = training.events("checkpoint", 1)[-1]
    assert last["at"] >= stop["at"], "saved after it was asked to"
    until(lambda: training.attempts() == 2, 60, training.story)
    assert training.resumed_from(2) == last["detail"]["manifest"]


def a_host_goes_away(agent: HostAgent, training: Training) -> None:
    """All of it at once, and it starts again. The gang resumes from its last checkpoint; no failure is the user's."""
    last = training.events("checkpoint", 2)[-1]
    agent.kill_with_its_ranks()
    agent.start()
    until(lambda: training.runs(3), 120, training.story)
    (stop,) = training.events("stop", 2)
    assert stop["detail"]["cause"] == "node_failure"
    assert training.resumed_from(3) >= last["detail"]["manifest"]


def no_step_is_skipped(training: Training) -> None:
    """Each attempt went on where the checkpoint that it began with ends, and none lost more than an interval."""
    for attempt in (2, 3):
        begun = int(training.resumed_from(attempt).rpartition("/")[0].rpartition("-s")[2])
        assert begun in training.saved(attempt - 1)
        assert begun < min(training.saved(attempt)) <= begun + SAVE_EVERY


def _started_anew(system: System, before: dict[str, Any]) -> bool:
    now = system.children()
    return all(name in now and now[name].pid != before[name].pid for name in ("web", "worker-scheduler"))


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False
