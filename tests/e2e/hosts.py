"""Hosts that a test brings into a running system, and takes away again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.agents import HostAgent
from tests.e2e.metadata import Provider
from tests.system import System, until

READY_S = 120.0


@dataclass(slots=True)
class Hosts:
    """Their agents are programs of their own; ``home`` keeps their state directories."""

    system: System
    home: Path
    join_token: str
    made: list[HostAgent] = field(default_factory=list)

    def start(
        self, *names: str, provider: Provider | None = None, gpus: int = 2, by: str | None = None
    ) -> list[HostAgent]:
        """Return when all of them take work. With a ``provider`` they are hosts on its spot market; they speak with the
        control plane ``by`` this address, or its own."""
        agents = [self._agent(name, provider, gpus, by) for name in names]
        self.made += agents
        for agent in agents:
            agent.start()
        with self.system.client("admin") as client:
            for agent in agents:
                until(lambda name=agent.name: state_of(client, name) == "READY", READY_S, agent.log)  # type: ignore[misc]
        return agents

    def close(self) -> None:
        """Take them away. Nothing of the next test may begin on a host that is not known to be gone yet."""
        try:
            with self.system.client("admin") as client:
                for agent in self.made:
                    client.post(f"/api/v1/nodes/{agent.name}/cordon", json={"reason": "its test is over"})
        finally:
            for agent in self.made:
                agent.close()

    def _agent(self, name: str, provider: Provider | None, gpus: int, by: str | None) -> HostAgent:
        agent = HostAgent.of(self.system, name, self.home / name, self.join_token)
        agent.url = by or agent.url
        agent.gpus = gpus
        if provider is not None:
            agent.given["GANGWAY_AGENT_NODE_SPOT"] = provider.name
            agent.more = f'metadata_url = "{provider.url}"'
        return agent


def state_of(client: httpx.Client, node: str) -> str:
    answer = client.get(f"/api/v1/nodes/{node}")
    return str(answer.json()["row"]["state"]) if answer.status_code == 200 else ""
