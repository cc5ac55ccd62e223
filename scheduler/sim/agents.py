"""The agents of a run: one simulated executor a host, with what an agent knows of its host beside the ranks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from nodes.agent.simulated import Behaviour, SimulatedExecutor
from scheduler.core.types import Assignment, GangReport, NodeReport, RankReport, RankState


class Agent:
    """One host's agent. ``silent`` while nothing it says arrives and no order reaches it; its ranks go on meanwhile."""

    __slots__ = ("assignments", "boot", "executor", "faulty", "gangs", "gone_at_ms", "name", "silent", "wake_ms")

    def __init__(self, name: str, executor: SimulatedExecutor) -> None:
        self.name = name
        self.executor = executor
        self.assignments: tuple[Assignment, ...] = ()
        self.gangs: tuple[GangReport, ...] = ()
        self.boot = 1
        self.faulty: frozenset[int] = frozenset()
        self.gone_at_ms: int | None = None
        self.silent = False
        self.wake_ms: int | None = None

    def report(self) -> NodeReport:
        return NodeReport(f"boot-{self.boot}", self.gangs, tuple(sorted(self.faulty)), self.gone_at_ms)


class Agents:
    """All agents of the fleet, stepped when an order or the time asks for it.

    ``unsent`` are the hosts whose report differs from what was last sent, in the order in which they came to differ.
    ``urgent`` turns true when one of them says something that a decision may hang on: a rank that is ready or has
    ended, a checkpoint that is complete. That ranks run as they were told, or are gone as they were told, is not.
    """

    def __init__(
        self, hosts: Iterable[str], behaviour: Callable[[Assignment], Behaviour], announce_checkpoints: bool
    ) -> None:
        self._behaviour = behaviour
        self._announce_checkpoints = announce_checkpoints
        self._agents = {host: Agent(host, self._new_executor()) for host in hosts}
        self._due: list[tuple[int, str]] = []
        self._dirty: dict[str, None] = {}
        self.unsent: dict[str, None] = dict.fromkeys(self._agents)
        self.urgent = True

    def __getitem__(self, host: str) -> Agent:
        return self._agents[host]

    def _new_executor(self) -> SimulatedExecutor:
        return SimulatedExecutor(self._behaviour, self._announce_checkpoints)

    # --- orders and time

    def order(self, host: str, assignments: tuple[Assignment, ...]) -> None:
        """Tell an agent what should be; a silent one does not hear it."""
        agent = self._agents[host]
        if not agent.silent and agent.assignments != assignments:
            agent.assignments = assignments
            self._dirty[host] = None

    def touch(self, host: str) -> None:
        """Step this agent with the next ones, whether or not anything is due."""
        self._dirty[host] = None

    @property
    def ordered(self) -> bool:
        """Whether an agent has an order that it has not obeyed yet."""
        return bool(self._dirty)

    def speaks(self) -> bool:
        """Whether an agent that is heard has something to say."""
        return any(not self._agents[host].silent for host in self.unsent)

    def wake_ms(self) -> int | None:
        """When the next agent has something to do by itself."""
        while self._due and self._agents[self._due[0][1]].wake_ms != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def step(self, now_ms: int) -> None:
        """Step every agent that has an order to obey or something due."""
        due = self._dirty
        self._dirty = {}
        while (wake_ms := self.wake_ms()) is not None and wake_ms <= now_ms:
            due[heapq.heappop(self._due)[1]] = None
        for host in due:
            self._step(self._agents[host], now_ms)

    def _step(self, agent: Agent, now_ms: int) -> None:
        stepped = agent.executor.step(agent.assignments, now_ms)
        if stepped.gangs is not agent.gangs:
            self.urgent = self.urgent or any(
                _urgent(gang) for gang in stepped.gangs if not any(gang is told for told in agent.gangs)
            )
            agent.gangs = stepped.gangs
            self.unsent[agent.name] = None
        if stepped.wake_ms != agent.wake_ms:
            agent.wake_ms = stepped.wake_ms
            if stepped.wake_ms is not None:
                heapq.heappush(self._due, (stepped.wake_ms, agent.name))

    def outgoing(self) -> dict[str, NodeReport]:
        """The reports to send now: of the agents that have something new to say and are heard."""
        speaking = [host for host in self.unsent if not self._agents[host].silent]
        self.urgent = False
        for host in speaking:
            del self.unsent[host]
        return {host: self._agents[host].report() for host in speaking}

    # --- what befalls a host

    def silence(self, host: str) -> None:
        self._agents[host].silent = True

    def return_as_it_was(self, host: str) -> None:
        """The agent is heard again, with the ranks that it still has."""
        self._agents[host].silent = False
        self.unsent[host] = None

    def reboot(self, host: str) -> None:
        """The host is heard again, freshly started: nothing runs on it, no notice holds. Broken GPUs stay broken."""
        agent = self._agents[host]
        agent.executor = self._new_executor()
        agent.assignments, agent.gangs = (), ()
        agent.boot += 1
        agent.gone_at_ms, agent.wake_ms = None, None
        agent.silent = False
        self.unsent[host] = None

    def set_gpu(self, host: str, gpu: int, faulty: bool) -> None:
        agent = self._agents[host]
        agent.faulty = agent.faulty | {gpu} if faulty else agent.faulty - {gpu}
        self.unsent[host] = None

    def give_notice(self, host: str, gone_at_ms: int) -> None:
        self._agents[host].gone_at_ms = gone_at_ms
        self.unsent[host] = None

    def exit_rank(self, host: str, job: str, attempt: int, rank: int, code: int) -> None:
        """A rank ends by itself. Without a living rank of that attempt on the host nothing happens."""
        if self._agents[host].executor.exit_rank(job, attempt, rank, code):
            self.touch(host)

    def with_rank(self, host: str, job: str, attempt: int, rank: RankReport) -> NodeReport:
        """What the host's agent says, with one rank of one attempt told otherwise: a late or doubled message."""
        report = self._agents[host].report()
        told = next((gang for gang in report.gangs if (gang.job, gang.attempt) == (job, attempt)), None)
        if told is None:
            return replace(report, gangs=(*report.gangs, GangReport(job, attempt, (rank,))))
        ranks = tuple(rank if known.rank == rank.rank else known for known in told.ranks)
        gangs = tuple(replace(gang, ranks=ranks) if gang is told else gang for gang in report.gangs)
        return replace(report, gangs=gangs)


def _urgent(gang: GangReport) -> bool:
    return gang.acknowledged or any(rank.state not in _AS_TOLD for rank in gang.ranks)


_AS_TOLD = (RankState.PREPARING, RankState.RUNNING)


def late_rank(rank: int, state: RankState) -> RankReport:
    """A rank's report as an agent would send it, with the exit code that belongs to its state."""
    codes: Mapping[RankState, int] = {RankState.SUCCEEDED: 0, RankState.FAILED: 1}
    return RankReport(rank, state, codes.get(state))
