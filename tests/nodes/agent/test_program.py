"""`python -m nodes.agent` as a program, against a scripted control plane: joining, leases, restarts, its own end."""

from __future__ import annotations

import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from nodes.agent.program import REPLACED, UNUSABLE
from scheduler.core.types import Action, Assignment, RankReport, RankState
from tests.agents import HostAgent
from tests.nodes.agent.host import now_ms, order, python
from tests.nodes.agent.portal import Portal
from tests.scheduler.store.certificates import authority, certificate
from tests.system import ROOT, until

MOST_RSS = 60 * 1024 * 1024
SLEEPS = python("import time; print('up', flush=True); time.sleep(600)")
WITHIN_S = 40.0


@pytest.fixture
def portal() -> Iterator[Portal]:
    made = Portal().start()
    yield made
    made.close()


@pytest.fixture
def agent(portal: Portal, tmp_path: Path) -> Iterator[HostAgent]:
    made = HostAgent("h1", tmp_path / "agent", portal.url, "join")
    made.start()
    yield made
    made.close()


def _release(portal: Portal, asked: Assignment) -> Assignment:
    """Prepare and run; answers the order to run."""
    portal.order(asked)
    portal.hears(lambda: _states(portal) == [RankState.READY] * len(asked.ranks))
    running = replace(asked, action=Action.RUN)
    portal.order(running)
    portal.hears(lambda: _states(portal) != [RankState.READY] * len(asked.ranks))
    return running


def _states(portal: Portal) -> list[RankState]:
    return [rank.state for gang in portal.gangs for rank in gang.ranks]


def _up(agent: HostAgent, processes: int) -> set[int]:
    """The processes of its ranks, once there are so many and each has written something."""

    def there() -> bool:
        outputs = list(agent.home.glob("runs/*/*/output.log"))
        return len(agent.ranks()) == processes and len(outputs) == processes // 2 and all(map(_size, outputs))

    until(there, WITHIN_S, agent.log)
    return {process.pid for process in agent.ranks()}


def _size(path: Path) -> int:
    return path.stat().st_size


def test_it_joins_once_runs_a_job_and_ships_what_it_wrote(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(python("print('hello')"), ranks=2))
    done = (RankReport(0, RankState.SUCCEEDED, 0), RankReport(1, RankState.SUCCEEDED, 0))
    portal.hears(lambda: bool(portal.gangs) and portal.gangs[0].ranks == done)
    portal.hears(lambda: portal.logs.get(("job-1", 1, 1)) == b"hello\n")
    (joined,) = portal.registrations
    assert (joined.node.name, joined.node.gpus, joined.join_token) == ("h1", 2, "join")
    portal.order()
    until(lambda: not any(agent.home.glob("runs/*")), WITHIN_S, agent.log)
    assert not any(agent.home.glob("scratch/*")), "what was shipped is removed"


def test_idle_it_takes_a_hundredth_of_a_core_at_most(portal: Portal, agent: HostAgent) -> None:
    portal.hears(lambda: len(portal.syncs) > 2)
    assert agent.process is not None
    process, heard, began_s = psutil.Process(agent.process.pid), len(portal.syncs), time.monotonic()
    before_s = sum(process.cpu_times()[:2])
    portal.hears(lambda: len(portal.syncs) >= heard + 8)
    assert sum(process.cpu_times()[:2]) - before_s <= 0.01 * (time.monotonic() - began_s)


def test_it_is_small_and_keeps_its_secrets(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(SLEEPS, ranks=2))
    _up(agent, 4)
    assert agent.process is not None
    assert psutil.Process(agent.process.pid).memory_info().rss <= MOST_RSS
    assert all(process.memory_info().rss < 16 * 1024 * 1024 for process in agent.ranks())
    kept = [path for path in agent.home.rglob("*.json") if "/run/" not in str(path)]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} <= {0o600, 0o644}
    assert stat.S_IMODE((agent.home / "agent.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("in_order", [True, False], ids=["asked to end", "killed"])
def test_its_next_life_takes_up_its_ranks(portal: Portal, agent: HostAgent, in_order: bool) -> None:
    running = _release(portal, order(SLEEPS, ranks=2))
    before = _up(agent, 4)
    first = portal.syncs[-1].report.boot_id
    if in_order:
        assert agent.stop() == 0
    else:
        agent.kill()
    assert {process.pid for process in agent.ranks()} == before
    agent.start()
    portal.hears(lambda: portal.syncs[-1].report.boot_id > first)
    assert _states(portal) == [RankState.RUNNING] * 2
    assert {process.pid for process in agent.ranks()} == before
    assert len(portal.registrations) == 1
    portal.order(replace(running, action=Action.STOP, deadline_ms=now_ms() + 60_000))
    portal.hears(lambda: _states(portal) == [RankState.STOPPED] * 2)


def test_an_exit_between_two_lives_is_told(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(python("import time; print('up', flush=True); time.sleep(2); raise SystemExit(3)")))
    _up(agent, 2)
    agent.kill()
    until(lambda: not agent.ranks(), WITHIN_S)
    agent.start()
    portal.hears(lambda: bool(portal.gangs) and portal.gangs[0].ranks == (RankReport(0, RankState.FAILED, 3),))


def test_a_control_plane_that_is_away_for_less_than_the_lease_ends_nothing(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(SLEEPS))
    before = _up(agent, 2)
    portal.away = True
    heard = len(portal.syncs)
    until(lambda: agent.log().count("the control plane is of no help now") > 0, WITHIN_S)
    portal.away = False
    portal.hears(lambda: len(portal.syncs) > heard + 1)
    assert {process.pid for process in agent.ranks()} == before
    assert _states(portal) == [RankState.RUNNING]


@pytest.mark.parametrize("alive", [True, False], ids=["the agent stops them", "the agent is dead: their keepers do"])
def test_out_of_touch_for_longer_than_the_lease_nothing_runs(portal: Portal, agent: HostAgent, alive: bool) -> None:
    portal.lease_s = 6.0
    running = _release(portal, order(SLEEPS, ranks=2))
    _up(agent, 4)
    if not alive:
        agent.kill()
    portal.away = True
    until(lambda: not agent.ranks(), WITHIN_S, agent.log)
    if not alive:
        agent.start()
    portal.away = False
    heard = len(portal.syncs)
    portal.hears(lambda: len(portal.syncs) > heard + 2)
    assert RankState.RUNNING not in _states(portal), "an attempt that was given up is not begun again"
    assert portal.orders == (running,) and not agent.ranks()


def test_taken_over_by_another_agent_it_stops_its_ranks_and_ends(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(SLEEPS))
    _up(agent, 2)
    portal.replaced = True
    assert agent.process is not None
    assert agent.process.wait(WITHIN_S) == REPLACED
    until(lambda: not agent.ranks(), WITHIN_S)


def test_one_state_directory_has_one_agent(portal: Portal, agent: HostAgent) -> None:
    portal.hears(lambda: bool(portal.syncs))
    done = subprocess.run(
        [sys.executable, "-m", "nodes.agent", "--config", str(agent.home / "agent.toml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert (done.returncode, done.stderr) == (UNUSABLE, f"agent: another agent runs with {agent.home}\n")


def test_settings_that_make_no_agent_are_told_in_a_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nodes.agent", "--url", "gangway", "--state", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.returncode == UNUSABLE
    assert done.stderr == "agent: url: give the portal's address, such as https://gangway.example.com\n"


@pytest.mark.parametrize("trusted", [True, False], ids=["signed by the authority it knows", "signed by another"])
def test_it_speaks_tls_and_with_nobody_it_does_not_trust(tmp_path: Path, trusted: bool) -> None:
    ca, ca_key = authority(tmp_path / "ca", "ours")
    other, _ = authority(tmp_path / "other", "theirs")
    cert, key = certificate(tmp_path / "server", ca, ca_key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    portal = Portal(context).start()
    agent = HostAgent("h1", tmp_path / "agent", portal.url, "join", more=f'ca_file = "{ca if trusted else other}"')
    try:
        agent.start()
        if trusted:
            portal.hears(lambda: bool(portal.syncs))
        else:
            until(lambda: "certificate verify failed" in agent.log(), WITHIN_S, agent.log)
            assert not portal.registrations
    finally:
        agent.close()
        portal.close()


def test_what_a_rank_is_told_does_not_leak_by_the_command_line(portal: Portal, agent: HostAgent) -> None:
    _release(portal, order(SLEEPS, env={"TOKEN": "very-secret"}))
    _up(agent, 2)
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            assert "very-secret" not in " ".join(process.cmdline())
