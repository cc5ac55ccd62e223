"""The simulated executor, driven in its own time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodes.agent.simulated import Behaviour, SimulatedExecutor, Step, Stepped, behaviour_from_environment
from scheduler.core.types import Action, Assignment, CheckpointSpec, JobSpec, RankState

MINUTE = 60_000


def assignment(action: Action = Action.PREPARE, **changes: Any) -> Assignment:
    checkpoint = changes.pop("checkpoint", CheckpointSpec(every_ms=30 * MINUTE, takes_ms=20_000))
    spec = JobSpec("j", "ml", 2, "H100", 2, 60 * MINUTE, 0, checkpoint=checkpoint)
    plain = Assignment(
        job="j",
        attempt=1,
        fence=1,
        action=action,
        ranks=(0, 1),
        gpus=(0, 1),
        world_size=2,
        node_rank=0,
        nodes=("n1",),
        deadline_ms=None,
        saved_work_ms=0,
        spec=spec,
    )
    return replace(plain, **changes)


def executor(announce: bool = True, **behaviour: Any) -> SimulatedExecutor:
    chosen = Behaviour(**behaviour)
    return SimulatedExecutor(lambda _: chosen, announce)


def running(agent: SimulatedExecutor, at_ms: int = 0, **changes: Any) -> Assignment:
    """Bring the attempt to RUNNING at ``at_ms``; answers the order that it runs under."""
    agent.step([assignment(**changes)], at_ms)
    order = assignment(Action.RUN, **changes)
    agent.step([order], at_ms)
    return order


def states(stepped: Stepped) -> list[RankState]:
    return [rank.state for gang in stepped.gangs for rank in gang.ranks]


def test_prepares_then_waits_for_the_barrier():
    agent = executor(start_takes_ms=90_000)
    first = agent.step([assignment()], 0)
    assert (states(first), first.wake_ms) == ([RankState.PREPARING] * 2, 90_000)
    ready = agent.step([assignment()], 90_000)
    assert (states(ready), ready.wake_ms) == ([RankState.READY] * 2, None)
    assert states(agent.step([assignment()], 10 * MINUTE)) == [RankState.READY] * 2


@pytest.mark.parametrize(
    ("code", "state"),
    [pytest.param(0, RankState.SUCCEEDED, id="well"), pytest.param(3, RankState.FAILED, id="badly")],
)
def test_ends_by_itself_when_its_work_is_done(code: int, state: RankState):
    agent = executor(runtime_ms=10 * MINUTE, exit_code=code)
    order = running(agent, 5 * MINUTE)
    assert states(agent.step([order], 14 * MINUTE)) == [RankState.RUNNING] * 2
    done = agent.step([order], 15 * MINUTE)
    assert states(done) == [state] * 2
    assert {rank.exit_code for rank in done.gangs[0].ranks} == {code}


def test_an_attempt_goes_on_from_the_work_that_was_saved():
    agent = executor(announce=False, runtime_ms=60 * MINUTE)
    order = running(agent, 0, saved_work_ms=45 * MINUTE)
    assert agent.step([order], MINUTE).wake_ms == 15 * MINUTE


def test_a_periodic_checkpoint_counts_only_once_it_is_complete():
    agent = executor(runtime_ms=120 * MINUTE)
    order = running(agent, 0)
    before = agent.step([order], 30 * MINUTE)
    assert before.gangs[0].saved_work_ms == 0
    assert before.wake_ms == 30 * MINUTE + 20_000
    saved = agent.step([order], 40 * MINUTE).gangs[0]
    assert (saved.saved_work_ms, saved.saved_at_ms) == (30 * MINUTE, 30 * MINUTE + 20_000)


def test_a_stalled_checkpoint_saves_nothing_more():
    chosen = {"now": Behaviour(runtime_ms=120 * MINUTE)}
    agent = SimulatedExecutor(lambda _: chosen["now"])
    order = running(agent, 0)
    agent.step([order], 31 * MINUTE)
    chosen["now"] = replace(chosen["now"], stalled=frozenset({Step.CHECKPOINT}))
    agent.step([order], 31 * MINUTE)
    assert agent.step([order], 100 * MINUTE).gangs[0].saved_work_ms == 30 * MINUTE


def test_a_stop_saves_the_work_of_that_moment_and_work_stands_still_meanwhile():
    agent = executor(runtime_ms=10 * MINUTE)
    running(agent, 0)
    order = assignment(Action.CHECKPOINT, deadline_ms=12 * MINUTE)
    asked = agent.step([order], 10 * MINUTE - 10_000)
    assert (asked.gangs[0].acknowledged, asked.wake_ms) == (False, 10 * MINUTE + 10_000)
    assert states(agent.step([order], 10 * MINUTE)) == [RankState.RUNNING] * 2
    saved = agent.step([order], 10 * MINUTE + 10_000).gangs[0]
    assert (saved.acknowledged, saved.saved_work_ms) == (True, 10 * MINUTE - 10_000)
    assert states(agent.step([assignment(Action.STOP)], 10 * MINUTE + 10_000)) == [RankState.STOPPED] * 2


def test_a_job_that_cannot_checkpoint_works_on_until_the_deadline():
    agent = executor(runtime_ms=60 * MINUTE)
    running(agent, 0, checkpoint=None)
    order = assignment(Action.CHECKPOINT, checkpoint=None, deadline_ms=12 * MINUTE)
    asked = agent.step([order], 10 * MINUTE)
    assert (states(asked), asked.wake_ms) == ([RankState.RUNNING] * 2, 12 * MINUTE)
    assert states(agent.step([order], 12 * MINUTE)) == [RankState.STOPPED] * 2


def test_a_job_that_finishes_in_its_grace_has_succeeded():
    agent = executor(runtime_ms=10 * MINUTE)
    running(agent, 0, checkpoint=None)
    order = assignment(Action.CHECKPOINT, checkpoint=None, deadline_ms=12 * MINUTE)
    assert agent.step([order], 9 * MINUTE).wake_ms == 10 * MINUTE
    assert states(agent.step([order], 10 * MINUTE)) == [RankState.SUCCEEDED] * 2


def test_a_stop_that_is_taken_back_lets_work_go_on_from_where_it_stood():
    agent = executor(announce=False, runtime_ms=60 * MINUTE)
    order = running(agent, 0)
    agent.step([assignment(Action.CHECKPOINT, deadline_ms=12 * MINUTE)], 10 * MINUTE)
    again = agent.step([order], 11 * MINUTE)
    assert again.gangs[0].acknowledged is False
    assert again.wake_ms == 61 * MINUTE


def test_an_attempt_that_is_not_assigned_goes_at_once():
    agent = executor()
    running(agent, 0)
    assert agent.step([], MINUTE).gangs == ()


def test_ranks_never_start_on_a_gpu_whose_earlier_ranks_live():
    agent = executor(start_takes_ms=30_000, stalled=frozenset({Step.STOP}))
    running_order = assignment()
    agent.step([running_order], 0)
    newcomer = assignment(job="k", attempt=1, gpus=(1, 2))
    waits = agent.step([newcomer], 40_000)
    assert [gang.job for gang in waits.gangs] == ["j", "k"]
    assert states(waits)[2:] == [RankState.PREPARING] * 2
    assert agent.step([newcomer], 10 * MINUTE).gangs[1].ranks[0].state is RankState.PREPARING
    agent.exit_rank("j", 1, 0, 9)
    agent.exit_rank("j", 1, 1, 9)
    begins = agent.step([newcomer], 11 * MINUTE)
    assert begins.wake_ms == 11 * MINUTE + 30_000


def test_a_stalled_stop_survives_its_deadline():
    agent = executor(stalled=frozenset({Step.STOP}))
    running(agent, 0)
    order = assignment(Action.CHECKPOINT, deadline_ms=12 * MINUTE)
    agent.step([order], 10 * MINUTE)
    assert states(agent.step([order], 20 * MINUTE)) == [RankState.RUNNING] * 2


def test_one_rank_that_ends_leaves_the_others_running():
    agent = executor(runtime_ms=60 * MINUTE)
    order = running(agent, 0)
    assert agent.exit_rank("j", 1, 0, 0)
    assert states(agent.step([order], MINUTE)) == [RankState.SUCCEEDED, RankState.RUNNING]
    assert not agent.exit_rank("j", 1, 0, 1), "a rank ends once"
    assert not agent.exit_rank("j", 2, 1, 1), "another attempt is not here"


def test_nothing_new_is_the_same_object():
    agent = executor(runtime_ms=60 * MINUTE)
    order = running(agent, 0)
    assert agent.step([order], MINUTE).gangs is agent.step([order], 2 * MINUTE).gangs


def test_the_environment_of_a_job_says_how_it_behaves():
    chosen = behaviour_from_environment(
        {"GANGWAY_SIM_RUNTIME_S": "1.5", "GANGWAY_SIM_EXIT_CODE": "2", "GANGWAY_SIM_STALLED": "start,stop"}
    )
    assert chosen == Behaviour(1500, 0, 2, frozenset({Step.START, Step.STOP}))
    assert behaviour_from_environment({}).runtime_ms is None
    with pytest.raises(ValueError, match="-1"):
        behaviour_from_environment({"GANGWAY_SIM_RUNTIME_S": "-1"})


def test_saves_once_beside_its_work_when_it_is_asked_to():
    agent = executor()
    order = running(agent)
    asked = replace(order, save_ms=1)
    first = agent.step([asked], 5 * MINUTE)
    assert first.wake_ms == 5 * MINUTE + 20_000
    saved = agent.step([asked], 5 * MINUTE + 20_000)
    (gang,) = saved.gangs
    assert (gang.saved_work_ms, gang.saved_at_ms, gang.acknowledged) == (5 * MINUTE, 5 * MINUTE + 20_000, False)
    assert states(saved) == [RankState.RUNNING] * 2
    again = agent.step([asked], 10 * MINUTE)
    assert again.gangs is saved.gangs
