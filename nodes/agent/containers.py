"""Ranks as containers, by the command line of docker or podman: one container a rank.

A rank's container shares the host's network and IPC namespaces, as the ranks of a gang need each other's memory and
ports, and sees of the host its run directory, the attempt's scratch and what the host's settings mount. The keeper of
the rank runs the engine's command line, so the container's exit code is that of a process; whatever has to reach the
container itself (signals, its removal) goes by the engine, by the container's name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import structlog

from nodes.agent.environment import of_a_rank
from nodes.agent.files import write_private
from nodes.agent.keeping import Launch, Rank
from nodes.agent.launcher import CannotPrepare, save_signal
from nodes.agent.settings import Mount
from scheduler.core.types import Assignment

log = structlog.get_logger(__name__)

ENV_FILE = "container.env"
ERROR_CHARACTERS = 300


class ContainerLauncher:
    """Executes the job's command in its image.

    Args:
        engine: the engine's program. ``podman`` says that it is podman, which names GPUs in another way.
        host: the environment of the engine's command line; nothing of a job's gets into it.
        passed: what ranks get of the host's environment.
        uuids: the GPUs by index, where they are known.
    """

    def __init__(
        self,
        engine: str,
        podman: bool,
        host: Mapping[str, str],
        passed: Mapping[str, str],
        place: Mapping[str, str],
        lease: Path,
        uuids: Sequence[str] = (),
        mounts: Sequence[Mount] = (),
    ) -> None:
        self._engine = engine
        self._podman = podman
        self._host = dict(host)
        self._passed = passed
        self._place = place
        self._lease = lease
        self._uuids = uuids
        self._mounts = mounts
        self._images = Images(engine, self._host)

    def prepare(self, assignment: Assignment) -> bool:
        """Whether the job's image is here.

        Raises:
            CannotPrepare: it cannot be had.
        """
        return self._images.have(assignment.spec.launch.image)

    def launch(self, assignment: Assignment, at: int, rank: Rank, scratch: Path) -> Launch:
        """
        Raises:
            OSError: the file of the container's environment cannot be written.
        """
        name = f"gangway-{assignment.job}-{assignment.attempt}-{assignment.ranks[at]}"
        env = {**self._passed, **of_a_rank(assignment, at, self._place, scratch, rank.run_directory)}
        # The engine numbers the GPUs that a container gets from 0 on.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in range(len(assignment.gpus)))
        program, *arguments = assignment.spec.launch.command
        return Launch(
            argv=(
                *(self._engine, "run", "--rm", "--name", name, "--pull", "never"),
                *("--network", "host", "--ipc", "host", "--workdir", str(scratch)),
                *self._limits(assignment),
                *self._gpus(assignment),
                *self._volumes(rank, scratch),
                *_variables(env, rank.path / ENV_FILE),
                *("--entrypoint", program, assignment.spec.launch.image, *arguments),
            ),
            env=self._host,
            cwd=str(scratch),
            save_signal=save_signal(assignment),
            lease=str(self._lease),
            signal=(self._engine, "kill", "--signal", "{signal}", name),
            kill=(self._engine, "kill", name),
            remove=(self._engine, "rm", "--force", name),
        )

    def _limits(self, assignment: Assignment) -> list[str]:
        spec, found = assignment.spec, []
        if spec.cpu_per_rank:
            found += ["--cpus", str(spec.cpu_per_rank)]
        if spec.memory_per_rank_gb:
            found += ["--memory", f"{spec.memory_per_rank_gb * 1_000_000_000}b"]
        return found

    def _gpus(self, assignment: Assignment) -> list[str]:
        names = [self._uuids[gpu] if gpu < len(self._uuids) else str(gpu) for gpu in assignment.gpus]
        if self._podman:
            return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]
        # Quoted, as docker reads this option as a line of comma-separated values.
        return ["--gpus", f'"device={",".join(names)}"']

    def _volumes(self, rank: Rank, scratch: Path) -> list[str]:
        own = [Mount(str(path), str(path), read_only=False) for path in (rank.run_directory, scratch)]
        found = []
        for mount in (*own, *self._mounts):
            found += ["--volume", f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"]
        return found


def _variables(env: Mapping[str, str], file: Path) -> list[str]:
    """The container's environment: by a file that its owner alone can read, as command lines can be read by all.

    The file has one line a variable, so what has several goes by the command line all the same.
    """
    lines = {name: value for name, value in env.items() if "\n" not in value}
    write_private(file, "".join(f"{name}={value}\n" for name, value in lines.items()).encode())
    found = ["--env-file", str(file)]
    for name, value in env.items():
        if name not in lines:
            found += ["--env", f"{name}={value}"]
    return found


class Images:
    """The images on this host. Never waits: what has to be fetched is asked for again.

    Looked for anew by each gang: an engine that is down is found out before a rank is started, not by its failure.
    """

    def __init__(self, engine: str, env: Mapping[str, str]) -> None:
        self._engine = engine
        self._env = dict(env)
        self._running: dict[str, tuple[str, subprocess.Popen[bytes], IO[bytes]]] = {}

    def have(self, image: str) -> bool:
        """Whether the image is here. It is looked for first, then pulled.

        Raises:
            CannotPrepare: it could not be pulled.
        """
        if image not in self._running:
            self._run(image, "inspect", "image", "inspect", "--format", "{{.Id}}", image)
            return False
        step, process, errors = self._running[image]
        if process.poll() is None:
            return False
        del self._running[image]
        with errors:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        if process.returncode == 0:
            return True
        if step == "inspect":
            self._run(image, "pull", "pull", "--quiet", image)
            return False
        raise CannotPrepare(f"{image} cannot be pulled: {said[-ERROR_CHARACTERS:]}")

    def _run(self, image: str, step: str, *words: str) -> None:
        errors = TemporaryFile()  # noqa: SIM115 - read, and closed, once the command has ended
        process = subprocess.Popen(
            [self._engine, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=self._env,
        )
        self._running[image] = (step, process, errors)
