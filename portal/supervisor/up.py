"""`manage.py up`, step by step: check, stores, preparation, everything else; say where it is; keep it up."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from portal.supervisor import checks, config, programs, secrets, stores
from portal.supervisor.config import Config
from portal.supervisor.console import Console
from portal.supervisor.lock import only_one
from portal.supervisor.process import CannotStart
from portal.supervisor.supervise import StopAsked, Supervisor

NODES_WITHIN_S = 90.0
"""A fleet that takes longer registers on while the system is in use already."""


def main(environ: Mapping[str, str], console: Console) -> int:
    """Run until a signal asks for the end. The exit status: 0 after a run, 1 if there was none."""
    try:
        chosen = config.read(environ)
        check(chosen)
        with only_one(chosen.data):
            return run(chosen, console)
    except (checks.Unfit, CannotStart, OSError) as error:
        console.refuse(str(error))
        return 1


def check(chosen: Config) -> None:
    """
    Raises:
        Unfit: the system cannot run here as asked.
    """
    checks.python_version(sys.version_info[:2])
    checks.directory(chosen.data)
    checks.port(chosen.port)
    stores.check_given(chosen.urls)


def run(chosen: Config, console: Console) -> int:
    """
    Raises:
        CannotStart: something did not come up; everything that did is stopped by then.
    """
    with Supervisor(chosen.logs, console.tell) as supervisor:
        try:
            with console.starting():
                start = Start(chosen, console, supervisor)
                start.all()
            console.summary(chosen, start.people, start.nodes)
            supervisor.run()
        except StopAsked:
            pass
        console.stopping()
    console.stopped(chosen)
    return 0


@dataclass(slots=True)
class Start:
    """One start of everything, in order. ``people`` is what demo.json holds, ``nodes`` how many hosts take work."""

    chosen: Config
    console: Console
    supervisor: Supervisor
    people: dict[str, Any] | None = None
    nodes: int = 0

    def all(self) -> None:
        """
        Raises:
            CannotStart: a step failed.
            StopAsked: a signal came in the meantime.
        """
        data, tell = self.chosen.data, self.console.step
        tell("Stores: " + (", ".join(s for s in config.STORES if s not in self.chosen.urls) or "all given by URL"))
        arranged = stores.arrange(self.chosen)
        self.supervisor.start(arranged.programs)
        arranged.create_database()
        env = programs.environ(self.chosen, arranged.environ, secrets.keep(data / "secret-key", 50))
        tell("Database, static files, demo teams and people")
        self.supervisor.run_once(programs.prepare(self.chosen, env))
        self.people = json.loads((data / "demo.json").read_text())
        tell("Web, Celery workers and clock")
        self.supervisor.start([programs.web(self.chosen, env), *programs.workers(self.chosen, env)])
        if not self.supervisor.wait_for(self._answers_ready, programs.READY_WITHIN_S):
            raise CannotStart(f"the portal is not ready: {readiness(self.chosen.address)}")
        self._start_outside(env)

    def _start_outside(self, env: dict[str, str]) -> None:
        """What speaks to the control plane by REST alone."""
        if self.chosen.hosts:
            self.console.step(f"Simulated fleet: {self.chosen.hosts} hosts register", total=self.chosen.hosts)
            self.supervisor.start([programs.fleet(self.chosen, env, secrets.keep(self.chosen.data / "join-token"))])
            if not self.supervisor.wait_for(self._fleet_is_there, NODES_WITHIN_S):
                self.console.tell(f"{self.nodes} of {self.chosen.hosts} hosts take work so far; the others follow")
        if self.chosen.workload:
            self.supervisor.start([programs.workload(self.chosen, env, self.chosen.data / "workload.json")])

    def _answers_ready(self) -> bool:
        return programs.answers(self.chosen.address + "/readyz")

    def _fleet_is_there(self) -> bool:
        self.nodes = registered(self.chosen.address, self.people or {})
        self.console.advance(self.nodes)
        return self.nodes >= self.chosen.hosts


def registered(address: str, people: dict[str, Any]) -> int:
    """How many hosts are ready for work, as the administrator sees it."""
    token = next(person["token"] for person in people["users"] if person["role"] == "admin")
    try:
        answer = httpx.get(address + "/api/v1/cluster", headers={"Authorization": f"Bearer {token}"}, timeout=5)
    except httpx.HTTPError:
        return 0  # busy with the agents themselves; asked again in a moment
    return int(answer.json()["hosts"].get("READY", 0)) if answer.status_code == 200 else 0


def readiness(address: str) -> str:
    """What `/readyz` says, for a person."""
    try:
        return httpx.get(address + "/readyz", timeout=5).text
    except httpx.HTTPError as error:
        return repr(error)
