"""Real processes under their keepers: how they are started, asked, ended, and what is told of it."""

from __future__ import annotations

import os
import signal
import stat
from dataclasses import replace
from typing import Any

import psutil
import pytest

from nodes.agent.keeping import Launch, Life
from scheduler.core.types import Action, Assignment, RankReport, RankState
from tests.nodes.agent.host import SAVES, Host, now_ms, order, python
from tests.system import until

SLEEPS = python("import time; print('up', flush=True); time.sleep(600)")
STUBBORN = python(
    "import signal, time\n"
    "for number in (signal.SIGTERM, signal.SIGUSR2): signal.signal(number, signal.SIG_IGN)\n"
    "print('up', flush=True); time.sleep(600)"
)
OBEDIENT = python(
    "import os, signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: (print('told to end', flush=True), os._exit(0)))\n"
    "print('up', flush=True)\n"
    "while True: signal.pause()"
)


def test_nothing_runs_before_the_order_to_run(host: Host) -> None:
    asked = order(SLEEPS, ranks=2)
    host.tell(asked)
    assert host.states() == [RankState.READY, RankState.READY]
    assert host.processes() == [] and host.report().port > 0
    running = host.release(asked)
    host.says("up", running, 1)
    assert host.states() == [RankState.RUNNING, RankState.RUNNING]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(("true",), RankReport(0, RankState.SUCCEEDED, 0), id="success"),
        pytest.param(python("raise SystemExit(3)"), RankReport(0, RankState.FAILED, 3), id="the program fails"),
        pytest.param(
            python("import os; os.kill(os.getpid(), 9)"), RankReport(0, RankState.FAILED, -9), id="killed by a signal"
        ),
        pytest.param(("no-such-program",), RankReport(0, RankState.FAILED, 127), id="there is no such program"),
        pytest.param(("/etc/passwd",), RankReport(0, RankState.FAILED, 126), id="it is no program"),
    ],
)
def test_how_a_rank_ended_by_itself(host: Host, command: tuple[str, ...], told: RankReport) -> None:
    assert host.run_to_end(order(command)).ranks == (told,)


def test_a_program_that_cannot_be_executed_says_so_in_its_log(host: Host) -> None:
    host.run_to_end(order(("no-such-program",)))
    assert host.said() == "gangway: cannot execute no-such-program: No such file or directory\n"


def test_no_shell_looks_at_the_command(host: Host) -> None:
    host.run_to_end(order(("echo", "$HOME; exit 3", "a  b")))
    assert host.said() == "$HOME; exit 3 a  b\n"


def test_standard_output_and_error_are_one_log_in_order(host: Host) -> None:
    host.run_to_end(order(python("import os; [os.write(1 + at % 2, b'%d' % at) for at in range(6)]")))
    assert host.said() == "012345"


def test_the_environment_of_a_rank(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")
    asked = order(("env",), ranks=2, env={"RANK": "77", "MINE": "a\nb"}, resume_from="s3://b/m", gpus=(2, 5))
    host.run_to_end(asked)
    found = dict(line.split("=", 1) for line in host.said(1).splitlines() if "=" in line)
    run = host.ranks()[1].run_directory
    assert "SECRET_OF_THE_AGENT" not in found
    assert found["MINE"] == "a" and "\nb\n" in host.said(1)
    wanted = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "0",
        "GROUP_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "2,5",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "20",
        "TORCHELASTIC_RUN_ID": "job-1",
        "GANGWAY_JOB_ID": "job-1",
        "GANGWAY_ATTEMPT": "1",
        "GANGWAY_NODE": "h1",
        "GANGWAY_RESUME_FROM": "s3://b/m",
        "GANGWAY_CHECKPOINT_PATH": "s3://bucket/prefix/",
        "GANGWAY_CHECKPOINT_SIGNAL": "SIGUSR2",
        "GANGWAY_RUN_DIR": str(run),
        "GANGWAY_SCRATCH": str(host.gang().scratch),
    }
    assert {name: found.get(name) for name in wanted} == wanted


def test_a_rank_starts_with_the_signals_that_a_program_expects(host: Host) -> None:
    host.run_to_end(order(("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")))
    libc_own = 0b11 << 31  # 32 and 33, which a program cannot set
    assert [int(line.split()[1], 16) & ~libc_own for line in host.said().splitlines()] == [0, 0]


def test_it_works_in_a_scratch_of_its_own_that_is_removed_at_the_end(host: Host) -> None:
    host.run_to_end(order(python("open('left', 'w'); print('x' * 10, file=open('big', 'w'))")))
    scratch = host.gang().scratch
    assert sorted(path.name for path in scratch.iterdir()) == ["big", "left"]
    host.tell()
    host.retired.close()
    assert not scratch.exists()
    assert (host.runs / "job-1@1" / "0" / "output.log").exists(), "its log is not shipped yet"


def test_what_is_kept_of_a_rank_is_the_agents_alone(host: Host) -> None:
    host.run_to_end(order(env={"TOKEN": "secret"}))
    for path in (host.runs / "job-1@1").rglob("*.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((host.runs / "job-1@1").stat().st_mode) == 0o700


# --- the end


def test_asked_to_end_it_is_stopped_whatever_its_exit_code(host: Host) -> None:
    running = host.release(order(OBEDIENT, ranks=2))
    for rank in (0, 1):
        host.says("up", running, rank)
    stop = replace(running, action=Action.STOP, deadline_ms=now_ms() + 60_000)
    host.told_until(lambda: not host.gang().living, stop)
    assert host.report().ranks == (RankReport(0, RankState.STOPPED), RankReport(1, RankState.STOPPED))
    assert host.said().endswith("told to end\n")


def test_one_that_does_not_end_is_killed_at_the_deadline(host: Host) -> None:
    running = host.release(order(STUBBORN))
    host.says("up", running)
    stop = replace(running, action=Action.STOP, deadline_ms=now_ms() + 2_500)
    host.tell(stop)
    assert host.states() == [RankState.RUNNING]
    host.told_until(lambda: not host.gang().living, stop)
    assert host.states() == [RankState.STOPPED] and now_ms() >= (stop.deadline_ms or 0)


def test_ranks_that_do_not_save_are_ended_at_the_deadline_by_the_agents_own_clock(host: Host) -> None:
    running = host.release(order(STUBBORN))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 1_000)
    host.told_until(lambda: not host.gang().living, asked)
    assert host.states() == [RankState.STOPPED] and now_ms() >= (asked.deadline_ms or 0)


def test_one_that_ends_well_during_the_grace_has_succeeded(host: Host) -> None:
    program = (
        "import signal; signal.signal(signal.SIGUSR2, lambda *_: exit(0)); print('up', flush=True); signal.pause()"
    )
    running = host.release(order(python(program)))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.told_until(lambda: not host.gang().living, asked)
    assert host.report().ranks == (RankReport(0, RankState.SUCCEEDED, 0),)


LISTENS_LATER = (
    "import os, signal, sys\n"
    "print('starts', flush=True)\n"
    "while not os.path.exists('listen'): pass\n"
    "signal.signal(signal.SIGUSR2, lambda *_: exit(0))\n"
    "signal.pause()"
)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(python(LISTENS_LATER), id="by itself"),
        pytest.param(("sh", "-c", 'trap : TERM; "$0" -c "$1"; exit $?', python("")[0], LISTENS_LATER), id="in a shell"),
    ],
)
def test_one_that_is_asked_to_save_before_it_listens_hears_of_it_when_it_does(
    host: Host, command: tuple[str, ...]
) -> None:
    """The signal would end it otherwise: its default action."""
    running = host.release(order(command))
    host.says("starts", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    for _ in range(20):
        host.tell(asked)
    assert host.states() == [RankState.RUNNING]
    (host.gang().scratch / "listen").touch()
    host.told_until(lambda: not host.gang().living, asked)
    assert host.report().ranks == (RankReport(0, RankState.SUCCEEDED, 0),)


def test_a_job_without_checkpoints_is_sent_no_signal_that_would_end_it(host: Host) -> None:
    running = host.release(order(SLEEPS, spec={"checkpoint": None}))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.tell(asked)
    host.restart()
    host.tell(asked)
    assert host.states() == [RankState.RUNNING]
    pid = _rank_pid(host)
    assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_an_attempt_that_is_not_wanted_is_killed_at_once_and_forgotten(host: Host) -> None:
    running = host.release(order(STUBBORN, ranks=2))
    host.says("up", running)
    host.told_until(lambda: not host.executor.gangs)
    assert host.processes() == []


def test_whatever_a_rank_has_started_ends_with_it(host: Host) -> None:
    """In a session of its own, orphaned, deaf to signals: it is reaped all the same before the end is told."""
    program = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_IGN); print('child up', flush=True); time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait(); time.sleep(0.5)"
    )
    host.run_to_end(order(python(program)))
    assert "child up" in host.said()
    assert host.report().ranks == (RankReport(0, RankState.SUCCEEDED, 0),)
    until(lambda: host.processes() == [], 10, lambda: str(host.processes()))


def test_a_gpu_is_not_given_to_a_new_attempt_before_the_old_one_has_left_it(host: Host) -> None:
    old = host.release(order(STUBBORN))
    host.says("up", old)
    new = replace(order(SLEEPS), job="job-2", gpus=(0,))
    seen: list[bool] = []

    def both() -> bool:
        states = {gang.key[0]: gang for gang in host.executor.gangs}
        alive = "job-1" in states and states["job-1"].living
        ready = states["job-2"].report().ranks[0].state is RankState.READY
        seen.append(alive and ready)
        return ready

    host.told_until(both, new)
    assert not any(seen)


# --- keepers and agents that end


def test_a_new_agent_goes_on_with_the_ranks_of_the_old_one(host: Host) -> None:
    program = (
        "import signal; signal.signal(signal.SIGUSR2, lambda *_: exit(7)); print('up', flush=True); signal.pause()"
    )
    running = host.release(order(python(program), ranks=2))
    for rank in (0, 1):
        host.says("up", running, rank)
    before = {process.pid for process in host.processes()}
    host.restart()
    host.tell(running)
    assert host.states() == [RankState.RUNNING] * 2
    assert {process.pid for process in host.processes()} == before
    host.told_until(
        lambda: not host.gang().living, replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    )
    assert host.report().ranks == (RankReport(0, RankState.FAILED, 7), RankReport(1, RankState.FAILED, 7))


def test_an_exit_while_no_agent_lived_is_not_lost(host: Host) -> None:
    running = host.release(order(python("print('up', flush=True); input(); raise SystemExit(5)")))
    host.told_until(lambda: not host.processes(), running)
    host.restart()
    host.tell(running)
    assert host.report().ranks[0].state is RankState.FAILED
    assert host.report().ranks[0].exit_code in (1, 5)


def test_an_agent_that_died_between_two_starts_starts_the_rest_once(host: Host) -> None:
    running = host.release(order(SLEEPS, ranks=2))
    for rank in (0, 1):
        host.says("up", running, rank)
    host.restart()
    again = host.gang()
    again.ranks[0].start(host.launcher.launch(running, 0, again.ranks[0], again.scratch))
    started = again.ranks[0]._started
    assert started is not None
    assert started.wait(20) == 0, "the second keeper finds that there is one"
    assert again.ranks[0].look().life is Life.LIVING
    assert host.said().count("up") == 1


def test_the_lease_ends_ranks_whose_agent_is_gone(host: Host) -> None:
    running = host.release(order(STUBBORN))
    host.says("up", running)
    host.renew(0.5)
    os.kill(_keeper_pid(host), signal.SIGCHLD)  # so that it need not be waited for that it looks
    until(lambda: host.processes() == [], 20, lambda: str(host.processes()))
    host.restart()
    host.tell(running)
    assert host.report().ranks == (RankReport(0, RankState.STOPPED),)


def test_a_lease_that_is_renewed_ends_nothing(host: Host) -> None:
    host.renew(1.0)
    running = host.release(order(SLEEPS))
    host.says("up", running)
    host.renew(3_600)
    until(lambda: psutil.Process(_rank_pid(host)).create_time() + 2 < now_ms() / 1000, 20)
    assert host.states() == [RankState.RUNNING]


def test_a_keeper_that_is_killed_takes_its_rank_along_and_that_is_the_fleets_fault(host: Host) -> None:
    program = "import os, time\nif os.fork() == 0: os.setsid()\nprint('up', flush=True)\ntime.sleep(600)"  # and a child
    running = host.release(order(python(program)))
    host.told_until(lambda: host.said().count("up") == 2, running)
    os.kill(_keeper_pid(host), signal.SIGKILL)
    host.told_until(lambda: not host.gang().living, running)
    assert host.report().ranks == (RankReport(0, RankState.STOPPED),)
    until(lambda: host.processes() == [], 20, lambda: str(host.processes()))


def test_a_record_that_cannot_be_read_stops_no_agent(host: Host) -> None:
    running = host.release(order(SLEEPS))
    host.says("up", running)
    (host.runs / "job-1@1" / "gang.json").write_text("{")
    host.restart()
    assert host.executor.gangs == ()


def _keeper_pid(host: Host) -> int:
    who = host.ranks()[0]._who()
    assert who is not None
    return who.keeper.pid


def _rank_pid(host: Host) -> int:
    who = host.ranks()[0]._who()
    assert who is not None
    return who.rank.pid


def test_a_gang_that_cannot_be_brought_anywhere_holds_up_no_other(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = host.launcher.launch

    def fails_for_one(asked: Assignment, *rest: Any) -> Launch:
        if asked.job == "job-1":
            raise KeyError("what nobody thought of")
        return launch(asked, *rest)

    monkeypatch.setattr(host.launcher, "launch", fails_for_one)
    both = [order(SLEEPS), replace(order(SLEEPS), job="job-2", gpus=(1,))]
    host.tell(*both)
    running = [replace(one, action=Action.RUN) for one in both]
    other = next(gang for gang in host.executor.gangs if gang.key[0] == "job-2")
    host.told_until(lambda: other.ranks[0].look().life is Life.LIVING, *running)


def test_a_signal_that_this_host_does_not_know_is_the_usual_one(host: Host) -> None:
    asked = order(spec={"checkpoint": replace(SAVES, signal="SIGNOVEL")})
    host.tell(asked)
    assert host.launcher.launch(asked, 0, host.ranks()[0], host.gang().scratch).save_signal == signal.SIGUSR2
