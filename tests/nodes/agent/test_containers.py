"""Ranks as containers, by a stand-in for the engine's program that keeps what it was called with."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.containers import ContainerLauncher
from nodes.agent.settings import Mount
from scheduler.core.types import Action, RankReport, RankState
from tests.nodes.agent.host import Host, now_ms, order, python

ENGINE = """#!{python}
# A container engine that runs a "container" as a process, named by a file with its pid.
import json, os, signal, subprocess, sys
from pathlib import Path
home, words = Path({home!r}), sys.argv[1:]
with (home / "calls").open("a") as file: file.write(json.dumps([words, dict(os.environ)]) + "\\n")
if words[0] == "image":
    sys.exit(0 if (home / "pulled").exists() else 1)
if words[0] == "pull":
    if (home / "no-registry").exists():
        sys.stderr.write("manifest unknown"); sys.exit(1)
    (home / "pulled").touch(); sys.exit(0)
if words[0] in ("kill", "rm"):
    pid = home / words[-1]
    number = int(words[words.index("--signal") + 1]) if "--signal" in words else 9
    if not pid.exists(): sys.exit(1)
    if words[0] == "kill": os.kill(int(pid.read_text()), number)
    else: pid.unlink()
    sys.exit(0)
if (home / "broken").exists():
    sys.stderr.write("cannot start the container"); sys.exit(125)
at = words.index("--entrypoint")
env = dict(line.split("=", 1) for line in Path(words[words.index("--env-file") + 1]).read_text().splitlines())
env |= dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--env")
inside = subprocess.Popen([words[at + 1], *words[at + 3:]], env=env)
(home / words[words.index("--name") + 1]).write_text(str(inside.pid))
code = inside.wait()
sys.exit(128 - code if code < 0 else code)
"""
UP_UNTIL_ASKED = (
    "import signal, time\n"
    "signal.signal(signal.SIGUSR2, lambda *_: print('saves', flush=True))\n"
    "print('up', flush=True)\n"
    "while True: time.sleep(0.05)"
)


class Engine:
    def __init__(self, path: Path) -> None:
        self.home = path / "engine"
        self.home.mkdir()
        self.program = self.home / "docker"
        self.program.write_text(ENGINE.format(python=sys.executable, home=str(self.home)))
        self.program.chmod(0o755)

    def calls(self, verb: str) -> list[tuple[list[str], dict[str, str]]]:
        """The words and the environment of each call that began with this one."""
        file = self.home / "calls"
        found: list[Any] = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [(words, env) for words, env in found if words[0] == verb]


@pytest.fixture
def engine(host: Host) -> Engine:
    made = Engine(host.path)
    host.launcher = _launcher(host, made)
    host.restart()
    return made


def _launcher(host: Host, engine: Engine, podman: bool = False, **more: Any) -> ContainerLauncher:
    host_env = {"PATH": "/usr/bin:/bin", "DOCKER_HOST": "unix:///run/docker.sock"}
    return ContainerLauncher(
        str(engine.program), podman, host_env, {"AWS_REGION": "eu"}, {"GANGWAY_NODE": "h1"}, host.lease, **more
    )


def _ready(host: Host, asked: Any) -> None:
    host.told_until(lambda: host.states() == [RankState.READY] * len(asked.ranks), asked)


def _run(host: Host, asked: Any) -> Any:
    _ready(host, asked)
    return host.release(asked)


def test_it_is_ready_once_its_image_is_pulled(host: Host, engine: Engine) -> None:
    asked = order()
    host.tell(asked)
    assert host.states() == [RankState.PREPARING]
    _ready(host, asked)
    assert [words for words, _ in engine.calls("pull")] == [["pull", "--quiet", "image:1"]]
    assert not engine.calls("run")


def test_an_image_that_is_here_is_not_pulled(host: Host, engine: Engine) -> None:
    (engine.home / "pulled").touch()
    _ready(host, order())
    assert not engine.calls("pull")


def test_an_image_that_cannot_be_had_keeps_the_gang_waiting_and_is_tried_again(host: Host, engine: Engine) -> None:
    (engine.home / "no-registry").touch()
    asked = order()
    host.told_until(lambda: bool(engine.calls("pull")) and host.gang()._try_again_ms > 0, asked)
    assert host.states() == [RankState.PREPARING]
    assert host.report().hindrance == "image:1 cannot be pulled: manifest unknown"
    (engine.home / "no-registry").unlink()
    host.gang()._try_again_ms = 0
    _ready(host, asked)
    assert host.report().hindrance == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(("true",), RankReport(0, RankState.SUCCEEDED, 0), id="success"),
        pytest.param(python("raise SystemExit(4)"), RankReport(0, RankState.FAILED, 4), id="the program fails"),
    ],
)
def test_its_exit_code_is_that_of_the_container(
    host: Host, engine: Engine, command: tuple[str, ...], told: RankReport
) -> None:
    running = _run(host, order(command))
    host.told_until(lambda: not host.gang().living, running)
    assert host.report().ranks == (told,)
    assert len(engine.calls("rm")) == 1


def test_an_engine_that_fails_is_not_the_users_fault(host: Host, engine: Engine) -> None:
    _ready(host, order())
    (engine.home / "broken").touch()
    running = host.release(order())
    host.told_until(lambda: not host.gang().living, running)
    assert host.report().ranks == (RankReport(0, RankState.STOPPED),)


def test_how_a_container_is_run(host: Host, engine: Engine) -> None:
    launcher = _launcher(host, engine, uuids=("GPU-a", "GPU-b", "GPU-c"), mounts=(Mount("/data", "/data"),))
    asked = order(
        ("python", "train.py", "--x", "a b"), ranks=2, gpus=(0, 2), spec={"cpu_per_rank": 6, "memory_per_rank_gb": 64}
    )
    _ready(host, asked)
    rank = host.ranks()[1]
    launch = launcher.launch(asked, 1, rank, host.gang().scratch)
    words = " ".join(launch.argv)
    assert launch.argv[:6] == (str(engine.program), "run", "--rm", "--name", "gangway-job-1-1-1", "--pull")
    assert "--cpus 6 --memory 64000000000b" in words
    assert '--gpus "device=GPU-a,GPU-c"' in words
    assert f"--volume {rank.run_directory}:{rank.run_directory} " in words and "--volume /data:/data:ro" in words
    assert launch.argv[-6:] == ("--entrypoint", "python", "image:1", "train.py", "--x", "a b")
    assert "CUDA_VISIBLE_DEVICES=0,1\n" in (rank.path / "container.env").read_text()
    assert stat.S_IMODE((rank.path / "container.env").stat().st_mode) == 0o600


def test_podman_names_gpus_in_its_own_way(host: Host, engine: Engine) -> None:
    asked = order(gpus=(1,))
    _ready(host, asked)
    launch = _launcher(host, engine, podman=True).launch(asked, 0, host.ranks()[0], host.gang().scratch)
    assert "--device nvidia.com/gpu=1" in " ".join(launch.argv)


def test_nothing_of_a_job_reaches_the_engine_itself(host: Host, engine: Engine) -> None:
    """A job's variables are for its container: DOCKER_HOST or LD_PRELOAD of a job must not steer the engine."""
    asked = order(("env",), env={"DOCKER_HOST": "tcp://evil", "LD_PRELOAD": "/evil.so", "TWO": "a\nb"})
    running = _run(host, asked)
    host.told_until(lambda: not host.gang().living, running)
    ((words, env),) = engine.calls("run")
    assert env["DOCKER_HOST"] == "unix:///run/docker.sock" and "LD_PRELOAD" not in env
    assert not any("evil" in word for word in words)
    assert "DOCKER_HOST=tcp://evil" in host.said() and "TWO=a\nb" in host.said() and "AWS_REGION=eu" in host.said()


def test_signals_go_to_the_container_by_its_name(host: Host, engine: Engine) -> None:
    running = _run(host, order(python(UP_UNTIL_ASKED)))
    host.says("up", running)
    asked = replace(running, action=Action.CHECKPOINT, deadline_ms=now_ms() + 60_000)
    host.says("saves", asked)
    stop = replace(running, action=Action.STOP, deadline_ms=now_ms() + 60_000)
    host.told_until(lambda: not host.gang().living, stop)
    assert host.report().ranks == (RankReport(0, RankState.STOPPED),)
    name = "gangway-job-1-1-0"
    assert [words for words, _ in engine.calls("kill")] == [
        ["kill", "--signal", "12", name],
        ["kill", "--signal", "15", name],
    ]


def test_one_that_is_not_wanted_is_killed_and_removed(host: Host, engine: Engine) -> None:
    running = _run(host, order(python(UP_UNTIL_ASKED)))
    host.says("up", running)
    host.told_until(lambda: not host.executor.gangs)
    assert [words for words, _ in engine.calls("kill")] == [["kill", "gangway-job-1-1-0"]]
    assert engine.calls("rm")
