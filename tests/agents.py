"""Agents of real hosts on this machine: programs with state directories of their own, that run ranks as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.client import Config

from tests.system import ROOT, System, until

WITHIN_S = 60.0


def joining(system: System, hosts: int) -> str:
    """A join token for so many hosts."""
    done = subprocess.run(
        [sys.executable, "manage.py", "join_token", "--uses", str(hosts)],
        cwd=ROOT,
        env=environ(system),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def environ(system: System) -> dict[str, str]:
    """What the system's own programs have in their environment."""
    return dict(system.children()["web"].environ())


def storage(system: System, bucket: str) -> Any:
    """A client of the system's object storage, with this bucket in it."""
    given = environ(system)
    client = boto3.client(
        "s3",
        endpoint_url=given["GANGWAY_S3_URL"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=bucket)
    return client


@dataclass(slots=True)
class HostAgent:
    """The agent of one host with ``gpus`` H100. ``home`` is its state directory.

    ``given`` is what it finds in its environment beside the path; ``more`` are further lines of its settings.
    """

    name: str
    home: Path
    url: str
    join_token: str
    given: dict[str, str] = field(default_factory=dict)
    more: str = ""
    gpus: int = 2
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, system: System, name: str, home: Path, join_token: str) -> HostAgent:
        """One whose ranks reach the system's object storage."""
        given = {name: value for name, value in environ(system).items() if name.startswith(("AWS_", "GANGWAY_S3"))}
        return cls(name, home, system.url, join_token, given)

    @property
    def kernel_log(self) -> Path:
        """What the host's kernel tells."""
        return self.home / "kmsg"

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.kernel_log.touch()
        config = self.home / "agent.toml"
        config.write_text(self._settings())
        config.chmod(0o600)
        with (self.home / "agent.log").open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nodes.agent", "--config", str(config)],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "GANGWAY_AGENT_JOIN_TOKEN": self.join_token, **self.given},
                stdout=sink,
                stderr=sink,
            )

    def stop(self) -> int:
        """End the agent alone, in order; its ranks go on."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(WITHIN_S)

    def kill(self) -> None:
        """SIGKILL to the agent alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_with_its_ranks(self) -> None:
        """SIGKILL to everything that runs on this host."""
        self.kill()
        for process in self.ranks():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: not self.ranks(), WITHIN_S, lambda: str(self.ranks()))

    def ranks(self) -> list[psutil.Process]:
        """The keepers and the ranks on this host."""
        return [process for process in psutil.process_iter() if self._is_here(process)]

    def close(self) -> None:
        """End the agent and all that is left of its ranks."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for _ in range(3):  # a keeper that ends may leave a child for a moment
            for process in self.ranks():
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def log(self) -> str:
        return (self.home / "agent.log").read_text(errors="replace")

    def _is_here(self, process: psutil.Process) -> bool:
        mark = str(self.home / "runs")
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return mark in " ".join(process.cmdline()) or mark in process.environ().get("GANGWAY_RUN_DIR", "")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _settings(self) -> str:
        buses = [f"0000:10:{28 + gpu:02x}.0" for gpu in range(self.gpus)]
        return f"""
url = "{self.url}"
state = "{self.home}"
{self.more}
pass_env = ["AWS_*", "GANGWAY_S3_URL"]
kernel_log = "{self.kernel_log}"

[node]
gpu_buses = {json.dumps(buses)}
name = "{self.name}"
az = "az1"
rack = "r1"
gpu_type = "H100"
gpus = {self.gpus}
cpus = {8 * self.gpus}
memory_gb = {128 * self.gpus}
scratch_gb = 100
address = "127.0.0.1"
"""
