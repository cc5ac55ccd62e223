"""What befalls the world of a scenario: each event of the format, done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nodes.agent.simulated import Behaviour
from scheduler.core.types import JobIntent, NodeIntent, ReservationIntent
from scheduler.sim import events
from scheduler.sim.agents import late_rank
from scheduler.sim.quota import lay_over, tree, written
from scheduler.sim.scenario import Quota
from scheduler.sim.world import World


class Incidents:
    """Applies events to a world. It remembers the quota tree as laid out, and the idempotency keys that were used."""

    def __init__(self, world: World, quota: Quota) -> None:
        self._world = world
        self._quota = quota.branches
        self._names = quota.names
        self._open = quota.open
        self._quota_version = 1
        self._requests: dict[tuple[str, str], str] = {}

    def apply(self, event: events.Event) -> None:
        """Let the event happen now; what follows from it is for the world to settle."""
        _APPLY[type(event)](self, event)

    # --- jobs

    def submit(self, event: events.Submit) -> None:
        for request in event.requests:
            if request.key is not None:
                used = (request.spec.team, request.key)
                if used in self._requests:
                    continue  # the same request again, or a conflict: either way nothing is created
                self._requests[used] = request.body
            self._world.submit(JobIntent(request.spec), request.behaviour)

    def wish(self, jobs: Iterable[str], **wish: Any) -> None:
        """Change what is wanted of jobs; of one that is over, refused or not there yet, nothing can be wanted."""
        for job in jobs:
            intent = self._world.jobs.get(job)
            if intent is not None and not self._world.history.jobs[job].over:
                self._world.set_job(job, replace(intent, version=intent.version + 1, **wish))

    def rank_exit(self, event: events.RankExit) -> None:
        record = self._world.history.jobs.get(event.job)
        host = record.host_of(record.attempt, event.rank) if record is not None else None
        if record is not None and host is not None:
            self._world.agents.exit_rank(host, event.job, record.attempt, event.rank, event.code)

    def stall(self, event: events.Stall) -> None:
        world = self._world
        behaviour = world.behaviours.get(event.job, Behaviour())
        world.behaviours[event.job] = replace(behaviour, stalled=behaviour.stalled | {event.what})
        record = world.history.jobs.get(event.job)
        for host in record.held if record is not None else ():
            world.agents.touch(host)

    def late_report(self, event: events.LateReport) -> None:
        """An agent's word arrives late or twice; its next sync puts the true report in its place."""
        world = self._world
        record = world.history.jobs.get(event.job)
        host = record.host_of(event.attempt, event.rank) if record is not None else None
        if host is not None:
            rank = late_rank(event.rank, event.state)
            world.interject(host, world.agents.with_rank(host, event.job, event.attempt, rank))

    # --- hosts

    def node_down(self, host: str) -> None:
        self._world.agents.silence(host)
        self._world.send_alive(host, False)

    def node_up(self, host: str) -> None:
        self._world.agents.reboot(host)
        self._world.greet(host)

    def node_back(self, host: str) -> None:
        self._world.agents.return_as_it_was(host)
        self._world.greet(host)

    def wish_node(self, host: str, **wish: Any) -> None:
        node: NodeIntent = self._world.nodes[host]
        self._world.set_node(replace(node, version=node.version + 1, **wish))

    def maintenance(self, event: events.Maintenance) -> None:
        for host in event.hosts:
            self.wish_node(host, maintenance=(*self._world.nodes[host].maintenance, event.window))

    def gpu(self, host: str, gpu: int, faulty: bool) -> None:
        self._world.agents.set_gpu(host, gpu, faulty)
        self._world.log.write(self._world.clock(), "gpu", host=host, gpu=gpu, state="FAULTY" if faulty else "OK")

    def spot_notice(self, event: events.SpotNotice) -> None:
        gone_at_ms = self._world.clock() + event.notice_ms
        self._world.agents.give_notice(event.host, gone_at_ms)
        self._world.at(gone_at_ms, lambda: self.node_down(event.host))

    # --- the control plane

    def reserve(self, event: events.Reserve) -> None:
        window = event.window
        self._world.set_reservation(
            ReservationIntent(event.name, event.team, event.gpus, event.gpu_type, window.start_ms, window.end_ms)
        )

    def quota(self, event: events.QuotaEdit) -> None:
        self._quota = lay_over(self._quota, event.tree)
        self._quota_version += 1
        self._world.set_quota(tree(self._quota, self._names, self._quota_version, self._open))
        self._world.log.write(self._world.clock(), "quota", quota=written(self._quota))

    def leader_crash(self, event: events.LeaderCrash) -> None:
        self._world.lose_leader(event.down_ms)

    def store_down(self, event: events.StoreDown) -> None:
        self._world.lose_store(event.for_ms)


_APPLY: dict[type, Callable[[Incidents, Any], None]] = {
    events.Submit: Incidents.submit,
    events.Cancel: lambda on, event: on.wish(event.jobs, cancel=True),
    events.Hold: lambda on, event: on.wish(event.jobs, hold=True),
    events.Release: lambda on, event: on.wish(event.jobs, hold=False),
    events.NodeDown: lambda on, event: on.node_down(event.host),
    events.NodeUp: lambda on, event: on.node_up(event.host),
    events.NodeBack: lambda on, event: on.node_back(event.host),
    events.Cordon: lambda on, event: on.wish_node(event.host, cordon=event.reason),
    events.Uncordon: lambda on, event: on.wish_node(event.host, cordon=None, drain=None),
    events.Drain: lambda on, event: on.wish_node(event.host, drain=event.reason),
    events.Maintenance: Incidents.maintenance,
    events.Reserve: Incidents.reserve,
    events.GpuFault: lambda on, event: on.gpu(event.host, event.gpu, True),
    events.GpuOk: lambda on, event: on.gpu(event.host, event.gpu, False),
    events.SpotNotice: Incidents.spot_notice,
    events.RankExit: Incidents.rank_exit,
    events.Stall: Incidents.stall,
    events.QuotaEdit: Incidents.quota,
    events.LeaderCrash: Incidents.leader_crash,
    events.StoreDown: Incidents.store_down,
    events.LateReport: Incidents.late_report,
}
