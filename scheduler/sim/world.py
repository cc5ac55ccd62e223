"""A whole Gangway in one process and in virtual time: intents, leader, agents and recorder over the memory store.

Nothing runs by itself. ``settle`` lets everybody do what there is to do at this moment until nobody has anything left;
``next_ms`` is when the next thing happens. What happens from outside are the methods of ``incidents``.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nodes.agent.simulated import Behaviour
from scheduler.core.admission import Refusal, refusal
from scheduler.core.orders import orders
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    Event,
    EventKind,
    HostState,
    JobIntent,
    JobSpec,
    NodeIntent,
    NodeReport,
    Phase,
    Policy,
    QuotaTree,
    ReservationIntent,
)
from scheduler.loader import Loader
from scheduler.sim.agents import Agents
from scheduler.sim.clock import VirtualClock
from scheduler.sim.control import ControlPlane
from scheduler.sim.history import History
from scheduler.sim.log import Log
from scheduler.sim.recorder import Recorder, put
from scheduler.store import keys
from scheduler.store.base import Delete, Operation, Put
from scheduler.store.memory import MemoryStore
from scheduler.usage_kept import EVERY_MS

REVISIONS_KEPT = 10_000
"""Of the store's history; the leader and the recorder read it within a round or two, or a new leader reads all anew."""
ROUNDS = 1000
"""Rounds of decisions at one moment after which the run is said not to come to rest."""


class Restless(Exception):
    """Decisions at one moment go on without end."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run starts from.

    ``terse`` agents tell at once what a decision may hang on, and everything else with their next message: that ranks
    run or are gone as they were told, and periodic checkpoints. ``usage_every_ms``: how often the leader writes down
    the use that is over, for the next one.
    """

    start_ms: int
    hosts: Sequence[NodeIntent]
    quota: QuotaTree
    policy: Policy
    tick_ms: int = 1_000
    lease_ms: int = 15_000
    terse: bool = False
    usage_every_ms: int = EVERY_MS


class World:
    """The run. ``history`` is what became of the jobs, ``log`` where everything that happens is told."""

    def __init__(self, setting: Setting, log: Log) -> None:
        self.setting = setting
        self.log = log
        self.clock = VirtualClock(setting.start_ms)
        self.store = MemoryStore(self.clock, REVISIONS_KEPT)
        self.history = History()
        self.behaviours: dict[str, Behaviour] = {}
        self.nodes = {host.name: host for host in setting.hosts}
        self.jobs: dict[str, JobIntent] = {}
        self.agents = Agents(
            self.nodes, lambda order: self.behaviours[order.job], announce_checkpoints=not setting.terse
        )
        ids = (f"{number:012d}" for number in itertools.count(1)).__next__
        self.control = ControlPlane(self.store, self.clock, setting.policy, ids, setting.usage_every_ms)
        self.recorder = Recorder(self.store, self.history, self._tell)
        self._outbox: list[Operation] = []
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._holders: dict[str, tuple[str, ...]] = {}
        self._health: dict[str, tuple[str, str]] = {}
        self._shown: dict[str, str] = {}
        self._registered = Snapshot()
        self._refusals: dict[tuple[object, ...], Refusal | None] = {}
        self._returned: dict[str, None] = {}
        self._late: dict[str, None] = {}
        self._elections = 0
        self._outages = 0
        self._elect_on_recovery = False
        self._tick_ms: int | None = None
        self.store_is_up = True
        self._register_fleet()
        self.control.take_over()

    def close(self) -> None:
        """Let go of everything at once: its parts know each other, and would stay until somebody looks for cycles."""
        self.__dict__.clear()

    # --- the way down: intents

    def send(self, key: str, record: Any) -> None:
        """Put an intent as the outbox does: at once, or when the store is there again."""
        self._outbox.append(put(key, record))

    def send_delete(self, key: str) -> None:
        self._outbox.append(Delete(key))

    def submit(self, intent: JobIntent, behaviour: Behaviour) -> None:
        """Submit a job as a user would: refused at once, or accepted and on its way."""
        spec = intent.spec
        refused = self._refusal(spec)
        self.history.submitted(spec, refused.code if refused else None)
        state = self.history.jobs[spec.id].state
        self.log.submit(self.clock(), spec, state, refused.code.value if refused else None)
        if refused:
            return
        self.behaviours[spec.id] = behaviour
        intent = self._with_known_ends(intent)
        self.recorder.depends(spec.id, intent.spec.after)
        self.set_job(spec.id, intent)

    def _refusal(self, spec: JobSpec) -> Refusal | None:
        """Whether such a job is refused; asked once for all jobs alike, until the fleet or the quota tree changes."""
        wants = (spec.gpus, spec.gpu_type, spec.hint, spec.cpu_per_rank, spec.memory_per_rank_gb, spec.scratch_gb)
        like = (spec.team, spec.priority, spec.spot_ok, spec.checkpoint, wants)
        if like not in self._refusals:
            self._refusals[like] = refusal(self._registered, spec, self.clock())
        return self._refusals[like]

    def _with_known_ends(self, intent: JobIntent) -> JobIntent:
        """The intent without dependencies that are met; cancelled where one never will be."""
        records = [self.history.jobs[name] for name in intent.spec.after if name in self.history.jobs]
        failed = any(record.over and record.state != Phase.SUCCEEDED for record in records)
        met = {record.spec.id for record in records if record.state == Phase.SUCCEEDED}
        after = tuple(name for name in intent.spec.after if name not in met)
        return replace(intent, spec=replace(intent.spec, after=after), cancel=failed) if intent.spec.after else intent

    def set_job(self, job: str, intent: JobIntent) -> None:
        self.jobs[job] = intent
        self.send(keys.intent_job(job), intent)

    def set_node(self, node: NodeIntent) -> None:
        self.nodes[node.name] = node
        self._registered.set_node_intent(node.name, node)
        self._refusals.clear()
        self.send(keys.intent_node(node.name), node)
        self._show_host(node.name)

    def set_quota(self, tree: QuotaTree) -> None:
        self._parents = {node.name: node.parent for node in tree.nodes}
        self._registered.set_quota(tree)
        self._refusals.clear()
        self.send(keys.INTENT_QUOTA, tree)

    def set_reservation(self, intent: ReservationIntent) -> None:
        self.send(keys.intent_reservation(intent.name), intent)

    def _register_fleet(self) -> None:
        self.set_quota(self.setting.quota)
        for host in self.setting.hosts:
            self.set_node(host)
            self.send_alive(host.name, True)

    def send_alive(self, host: str, alive: bool) -> None:
        """What the lease of a host's agent does to its key."""
        if alive:
            self._outbox.append(Put(keys.alive(host), self.agents[host].report().boot_id.encode()))
        else:
            self.send_delete(keys.alive(host))

    # --- time

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        """Do something at a later moment, before the decisions of that moment."""
        heapq.heappush(self._timers, (at_ms, next(self._numbers), action))

    def next_ms(self) -> int | None:
        """When the next thing happens that nothing from outside causes; None if nothing more can."""
        moments = [self.agents.wake_ms(), self._timers[0][0] if self._timers else None]
        if self.store_is_up and self.control.alive:
            moments.append(self._tick_ms)
        return min((moment for moment in moments if moment is not None), default=None)

    def put_forward(self, to_ms: int) -> None:
        """Let time pass and do what was set for then; decisions are made by ``settle``."""
        self.clock.put_forward(to_ms)
        while self._timers and self._timers[0][0] <= to_ms:
            heapq.heappop(self._timers)[2]()

    def settle(self) -> None:
        """Everybody does what there is to do now, until nobody has anything left.

        Raises:
            Restless: that does not come to an end.
        """
        for _ in range(ROUNDS):
            if not self._round():
                return
        raise Restless(f"decisions do not come to rest within {ROUNDS} rounds")

    def decides(self) -> bool:
        """One more tick, with nothing new to see; answers whether it decided anything."""
        return self.control.tick().decided

    def _round(self) -> bool:
        """One round of everybody; answers whether another one may bring something new."""
        self.agents.step(self.clock())
        if not self.store_is_up:
            return False
        self._deliver()
        ticked = self.control.tick()
        self._tick_ms = self._next_tick(ticked.wake_ms)
        if ticked.decided or ticked.elected:
            self.recorder.drain()
        if ticked.jobs or self._returned:
            self._give_orders(ticked.jobs)
        return ticked.decided or self._news()

    def _news(self) -> bool:
        """Whether something waits to be told that must not wait for the next moment."""
        if self._outbox or self.agents.ordered:
            return True
        return self.agents.urgent if self.setting.terse else self.agents.speaks()

    def _next_tick(self, wake_ms: int | None) -> int | None:
        """The first tick at or after ``wake_ms``, and after now."""
        if wake_ms is None:
            return None
        tick_ms, start_ms = self.setting.tick_ms, self.setting.start_ms
        wanted = max(wake_ms, self.clock() + 1) - start_ms
        return start_ms + -(-wanted // tick_ms) * tick_ms

    def _deliver(self) -> None:
        """Put what waits in the outbox, then what agents have to say; in as few commits as the order of keys allows."""
        pending = self._outbox
        self._outbox = []
        pending += [put(keys.report(host), report) for host, report in self.agents.outgoing().items()]
        for host in self._late:
            self.agents.unsent[host] = None
        self._late = {}
        batch: dict[str, Operation] = {}
        for operation in pending:
            if operation.key in batch or len(batch) >= 500:
                self.store.commit([], list(batch.values()))
                batch = {}
            batch[operation.key] = operation
        if batch:
            self.store.commit([], list(batch.values()))

    # --- orders

    def snapshot(self) -> Snapshot:
        """The cluster as it is known: the leader's picture, or, while there is no leader, what the store holds.

        Raises:
            StoreUnavailable: there is neither.
        """
        if self.control.snapshot is not None:
            return self.control.snapshot
        loader = Loader(self.store)
        loader.load()
        return loader.snapshot

    def _give_orders(self, jobs: Iterable[str]) -> None:
        """Tell the agents what the decisions about these jobs changed for them, and those that are back everything."""
        snapshot = self.snapshot()
        hosts, self._returned = self._returned, {}
        for job in jobs:
            known = snapshot.jobs.get(job)
            decision = known.decision if known is not None else None
            now = tuple(part.node for part in decision.allocation) if decision is not None else ()
            hosts.update(dict.fromkeys((*self._holders.pop(job, ()), *now)))
            if now:
                self._holders[job] = now
        for host in hosts:
            self.agents.order(host, orders(snapshot, host))

    def greet(self, host: str) -> None:
        """An agent that is heard again gets its orders with its next sync."""
        self.send_alive(host, True)
        self._returned[host] = None

    def interject(self, host: str, report: NodeReport) -> None:
        """A message of an agent arrives that is not its newest; the next sync brings that one."""
        self.send(keys.report(host), report)
        self._late[host] = None

    # --- outages

    def lose_leader(self, down_ms: int) -> None:
        """The scheduler's process dies; another has taken over after ``down_ms``."""
        self.control.die()
        self._elections += 1
        election = self._elections
        self.at(self.clock() + down_ms, lambda: self._elect(election))

    def _elect(self, election: int) -> None:
        """Let a new process lead, unless a later death put that off; without a store it waits for it."""
        if election != self._elections:
            return
        if self.store_is_up:
            self.control.take_over()
        else:
            self._elect_on_recovery = True

    def lose_store(self, for_ms: int) -> None:
        """The store is away for ``for_ms``. A leader that could not renew its lease for that long has lost the lead."""
        self._outages += 1
        outage = self._outages
        if self.store_is_up:
            self.log.write(self.clock(), "store", state="down")
            self.store.fail()
        self.store_is_up = False
        self._elect_on_recovery |= self.control.alive and for_ms >= self.setting.lease_ms
        self.at(self.clock() + for_ms, lambda: self._regain_store(outage))

    def _regain_store(self, outage: int) -> None:
        if outage != self._outages:
            return  # a later outage goes on
        self.store.recover()
        self.store_is_up = True
        self.log.write(self.clock(), "store", state="up")
        if self._elect_on_recovery:
            self._elect_on_recovery = False
            self.control.take_over()

    # --- telling

    def path(self, team: str) -> tuple[str, ...]:
        """The nodes of the quota tree that a team's use is charged to, from the team up."""
        path = []
        node: str | None = team
        while node is not None:
            path.append(node)
            node = self._parents.get(node)
        return tuple(path)

    def host_state(self, host: str) -> str:
        """The state of a host as a person sees it, and as the log tells it."""
        return self._shown.get(host, HostState.READY.value)

    def _tell(self, event: Event) -> None:
        if event.kind is EventKind.HOST and event.node is not None:
            self._health[event.node] = (event.detail["state"], event.detail.get("why", ""))
            self._show_host(event.node, event.at_ms)
            return
        if event.kind is EventKind.RELEASE and event.job is not None and self.control.snapshot is not None:
            self.history.jobs[event.job].lost_ms = self.control.snapshot.jobs[event.job].decision.lost_ms
        self.log.event(event)

    def _show_host(self, host: str, at_ms: int | None = None) -> None:
        """Tell the host's state as a person sees it: its health, else what on-call asked of it."""
        health, why = self._health.get(host, ("READY", ""))
        node = self.nodes[host]
        if health == "READY" and node.drain is not None:
            health, why = "DRAINING", node.drain
        elif health == "READY" and node.cordon is not None:
            health, why = "CORDONED", node.cordon
        if self._shown.get(host, "READY") != health:
            self._shown[host] = health
            self.log.write(self.clock() if at_ms is None else at_ms, "host", host=host, state=health, why=why)
