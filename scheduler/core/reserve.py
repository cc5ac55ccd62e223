"""Planned starts: the blocked gangs that come first are promised named nodes from a moment on, and nothing that is let
through behind them may still be there then.

A promise binds those who come after its owner in the queue. Those before it may start on its nodes; it is then planned
anew. Otherwise it never moves to a later start while its nodes live, and it moves to an earlier one when GPUs come free
before their plan. A job of one GPU and no other demand needs none: nobody who is smaller can pass it.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.bookings import booked
from scheduler.core.draft import Draft
from scheduler.core.horizon import Horizon
from scheduler.core.job import Job
from scheduler.core.lifecycle import remaining_ms
from scheduler.core.limits import Asker, Limits
from scheduler.core.patience import promised_until_ms
from scheduler.core.quota import Branch
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Pool
from scheduler.core.types import Event, EventKind, Phase, Reservation, Reservations
from scheduler.core.waiting import Group, Shape
from scheduler.core.work import ALL

REPLAN_EVERY_MS = 300_000
"""Promises are moved up at most this often: what is promised is given earlier anyhow when it comes free."""

REPLANNED = 8
"""So many promises of a GPU type are moved up at a time, those with the earliest starts."""


class Holds:
    """The reservations of one plan, by job; those of teams are carried along.

    ``limits`` is what binds the job that is walked now: promises enter it as the walk passes their owners. Plans are
    made against all promises.
    """

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._snapshot = draft.snapshot
        self._limits = limits
        self._all = Limits(draft.snapshot, draft.now_ms)
        self._horizon = Horizon(draft.snapshot, self._all, draft.now_ms)
        held = draft.snapshot.reservations.held
        self._before = {one.job: one for one in held if one.job is not None}
        self._of = dict(self._before)
        self._teams_before = [one for one in held if one.job is None]
        self._teams: list[Reservation] = []
        self._coming: dict[str, Reservation] = {}
        """The holds of those that are leaving another place for the one that is held."""
        self._in_force: set[str] = set()
        self._replans: set[str] = set()
        self._reviewed = draft.snapshot.reviews != draft.snapshot.holds_reviewed
        self._disturbed: set[str] = set()
        self._kept_free: dict[str, set[Pool]] = {}
        self._heads: dict[str, str] | None = {} if draft.policy.order == "easy" else None
        self.stirred = self._reviewed
        """Whether the holds are not those that the last plan left: one was dropped, or its nodes may have changed."""
        self.due_types: set[str] = set()
        """The GPU types of which promises are looked at again in this plan."""
        zones = draft.snapshot.topology.zones.values()
        self._largest_node = max((zone.largest for zone in zones), default=1)
        self._gangs = sum(map(self._is_gang, self._of.values()))

    def begin(self) -> None:
        """Drop the holds of jobs that do not wait any more; put in force what binds everybody."""
        for name, held in list(self._of.items()):
            job = self._snapshot.jobs.get(name)
            if job is None or job.group is None:
                del self._of[name]
                self._gangs -= self._is_gang(held)
                if job is not None and job.phase is Phase.STOPPING and held.firm and self._whole(held):
                    self._coming[name] = held
                else:
                    self.stirred = True
                continue
            self._all.add(held)
            if held.firm:
                self._limits.add(held)
                self._in_force.add(name)
        self._coming |= {held.job: held for held in self._draft.booked if held.job is not None}
        for held in self._coming.values():
            self._all.add(held)
            self._limits.add(held)
        self._teams = booked(self._draft, self._all, self._horizon, self._teams_before)
        for held in self._teams:
            self._limits.add(held)
        self._replans = self._due_for_replanning()

    def _due_for_replanning(self) -> set[str]:
        """The jobs whose promises may move up: GPUs of their type came free, and they were not looked at lately."""
        snapshot, now = self._snapshot, self._draft.now_ms
        gained = snapshot.work.gained
        due = set()
        for gpu_type in sorted({held.gpu_type for held in self._of.values()}):
            if gpu_type in gained or ALL in gained:
                snapshot.replan.add(gpu_type)
            if gpu_type not in snapshot.replan:
                continue
            next_ms = snapshot.replanned_ms.get(gpu_type, -REPLAN_EVERY_MS) + REPLAN_EVERY_MS
            if next_ms > now:
                self._draft.wake(next_ms)
                continue
            due.update(self._next_to_start(gpu_type))
            self.due_types.add(gpu_type)
            snapshot.replan.discard(gpu_type)
            snapshot.replanned_ms[gpu_type] = now
        return due

    def _next_to_start(self, gpu_type: str) -> list[str]:
        """Of the promises of one type those that are planned to be kept first."""
        held = [(one.start_ms, name) for name, one in self._of.items() if one.gpu_type == gpu_type]
        return [name for _, name in sorted(held)[:REPLANNED]]

    def by_group(self) -> dict[Group, list[str]]:
        """The jobs that hold something, by group."""
        groups: dict[Group, list[str]] = {}
        for name in self._of:
            group = self._snapshot.jobs[name].group
            assert group is not None
            groups.setdefault(group, []).append(name)
        return groups

    def of(self, job: str) -> Reservation | None:
        return self._of.get(job)

    def all(self) -> list[Reservation]:
        return list(self._of.values())

    def bound(self, job: str, nodes: list[str]) -> None:
        """A job was given GPUs of these nodes."""
        self.drop(job)
        self._disturbed.update(nodes)
        self._horizon.changed()

    # --- how many -----------------------------------------------------------------------------------------------

    def room(self) -> bool:
        """Whether another job could be promised a start."""
        gangs, hosts = self._counts()
        policy = self._draft.policy
        return gangs < policy.gang_reservations or hosts < policy.host_reservations

    def room_for(self, shape: Shape) -> bool:
        """Whether a job of this shape could be promised a start."""
        if shape.gpus == 1 and not (shape.cpu or shape.memory or shape.scratch):
            return False
        gangs, hosts = self._counts()
        if shape.gpus > self._largest_node:
            return gangs < self._draft.policy.gang_reservations
        return hosts < self._draft.policy.host_reservations

    def _counts(self) -> tuple[int, int]:
        return self._gangs, len(self._of) - self._gangs

    def _is_gang(self, held: Reservation) -> bool:
        return held.gpus > self._largest_node

    # --- as the walk passes a job -------------------------------------------------------------------------------

    def passed(self, job: Job) -> None:
        """The holder cannot start now: from here on its promise binds; it is renewed if broken, moved up if it can."""
        name = job.id
        held = self._of[name]
        if not self._is_head(name, held.gpu_type):
            self.drop(name)
            return
        if (self._reviewed and not self._whole(held)) or (not held.firm and self._late(job, held)):
            self.drop(name)
            renewed = self._start(job)
            if renewed is not None:
                self._put(renewed)
            return
        if held.firm and not self.awaits_stops(held):
            held = replace(held, firm=False)
            self.put(held)
        elif not held.firm and held.start_ms > self._draft.now_ms and name in self._replans:
            better = self._start(job)
            if better is not None and better.start_ms < held.start_ms:
                self.put(better)
        if name not in self._in_force:
            self._bind_others(self._of[name])

    def _bind_others(self, held: Reservation) -> None:
        """Let the promise bind those who come after its owner. For the first ones whole nodes are kept free, too: by
        the limits of what runs now their starts are far off, and what comes free before would be gone by then."""
        assert held.job is not None
        self._limits.add(held)
        self._in_force.add(held.job)
        pools = self._kept_free.setdefault(held.gpu_type, set())
        if len(pools) >= self._draft.policy.gathers or held.firm or not self._is_gang(held):
            return
        layout = self._snapshot.layouts.of(held, self._snapshot.nodes)
        if layout.whole and layout.racks[0][0].pool not in pools:
            pool = layout.racks[0][0].pool
            pools.add(pool)
            self._limits.keep_free(pool, self._snapshot.jobs[held.job])

    def enforce(self) -> None:
        """Put in force the promises of those whom the walk had no reason to come to."""
        for name, held in self._of.items():
            if name not in self._in_force:
                self._limits.add(held)
                self._in_force.add(name)

    def awaits_stops(self, held: Reservation) -> bool:
        """Whether somebody is being stopped for it, on its nodes, or below a ceiling that it is under, too."""
        snapshot = self._snapshot
        if held.job in snapshot.stopping_for:
            return True
        nodes = (snapshot.nodes.get(name) for name in held.nodes)
        if any(node is not None and not snapshot.stopping.isdisjoint(node.jobs) for node in nodes):
            return True
        assert held.job is not None
        path = snapshot.quota.leaf(snapshot.jobs[held.job].spec.team).path
        capped = {branch for branch in path if held.gpu_type in branch.node.ceiling}
        leaves = (snapshot.jobs[name].leaf for name in snapshot.stopping) if capped else ()
        return any(leaf is not None and not capped.isdisjoint(leaf.path) for leaf in leaves)

    def kept_below(self, branch: Branch, gpu_type: str, asker: Asker) -> int:
        """GPUs below a ceiling that stops made free, or will, for others whom the asker may not pass."""
        snapshot, kept = self._snapshot, 0
        for name, held in self._of.items():
            spec = snapshot.jobs[name].spec
            passes = name == asker.job or asker.outranks(spec.team, spec.priority)
            if passes or not held.firm or held.gpu_type != gpu_type:
                continue
            if branch in snapshot.quota.leaf(spec.team).path:
                victims = [snapshot.jobs[victim] for victim in snapshot.stopping_for.get(name, ())]
                inside = [one.spec.gpus for one in victims if one.leaf is not None and branch in one.leaf.path]
                kept += max(0, spec.gpus - sum(inside))
        return kept

    def _whole(self, held: Reservation) -> bool:
        return stands(self._snapshot, held)

    def _late(self, job: Job, held: Reservation) -> bool:
        """Whether somebody who came first has taken what was promised, so that the promise cannot be kept."""
        if self._disturbed.isdisjoint(held.nodes):
            return False
        assert job.shape is not None
        asker, left = self._asker(job), remaining_ms(job.spec, job.decision)
        for name, takes in zip(held.nodes, held.takes, strict=True):
            if name in self._disturbed:
                row = self._horizon.row(self._snapshot.nodes[name], asker, job.shape, left)
                if len(row) < takes or row[takes - 1] > max(held.start_ms, self._draft.now_ms):
                    return True
        return False

    def promise(self, group: Group, job: Job, allowed: list[str]) -> str | None:
        """Plan the job's start if there is room for one more; answers the GPU type that it was promised."""
        if not self.room_for(group.shape) or not self._is_head(job.id, group.shape.gpu_type):
            return None
        due = job.spec.submitted_ms + self._draft.policy.reservation_after_ms
        if due > self._draft.now_ms:
            self._draft.wake(due)
            return None
        held = self._start(job, allowed)
        if held is None:
            return None
        self._put(held)
        return held.gpu_type

    def _is_head(self, name: str, gpu_type: str) -> bool:
        """Whether the job may hold a promise: by ``easy`` the first blocked one of its GPU type alone."""
        if self._heads is None:
            return True
        head = self._heads.setdefault(gpu_type, name)
        if head == name:
            for other, held in list(self._of.items()):
                if held.gpu_type == gpu_type and other != name:
                    self.drop(other)
        return head == name

    def _asker(self, job: Job) -> Asker:
        return Asker(job.id, job.spec.team, job.priority)

    def _start(self, job: Job, allowed: list[str] | None = None) -> Reservation | None:
        assert job.shape is not None
        left = remaining_ms(job.spec, job.decision)
        in_one = self._draft.now_ms < promised_until_ms(job.spec, job.decision, self._draft.policy)
        return self._horizon.start(self._asker(job), job.shape, left, allowed, in_one)

    # --- bookkeeping --------------------------------------------------------------------------------------------

    def _put(self, held: Reservation) -> None:
        assert held.job is not None
        self._of[held.job] = held
        self._gangs += self._is_gang(held)
        self._all.add(held)
        self._bind_others(held)
        self._disturbed.update(held.nodes)
        self._horizon.changed()

    def put(self, held: Reservation) -> None:
        """Hold these nodes for a job, in place of what was held for it."""
        assert held.job is not None
        self.drop(held.job)
        self._put(held)

    def drop(self, job: str) -> None:
        held = self._of.pop(job, None)
        if held is not None:
            self._gangs -= self._is_gang(held)
            self._all.remove(held)
            self._limits.remove(held)
            self._in_force.discard(job)
            self._horizon.changed()

    def give_way(self, job: str, nodes: set[str]) -> None:
        """Drop what was merely planned on these nodes: somebody is stopped there for ``job``."""
        for name, held in list(self._of.items()):
            if name != job and not held.firm and not nodes.isdisjoint(held.nodes):
                self.drop(name)

    def write(self) -> None:
        """Put what changed among the holds into the plan."""
        events: list[Event] = []
        held_now = {**self._coming, **self._of}
        for name, held in self._before.items():
            if _promise(held_now.get(name)) != _promise(held):
                events.append(self._event(EventKind.UNRESERVE, name, held))
        for name, held in self._of.items():
            if _promise(self._before.get(name)) != _promise(held):
                events.append(self._event(EventKind.RESERVE, name, held))
        if self.room() and any(held_now.get(name) is None for name in self._before):
            self._draft.late.add(ALL)
        if held_now != self._before or self._teams != self._teams_before:
            events += self._draft.booked_events
            self._draft.reserve(Reservations((*self._teams, *held_now.values())), events)
        else:
            self._snapshot.holds_reviewed = self._snapshot.reviews

    def _event(self, kind: EventKind, name: str, held: Reservation) -> Event:
        job = self._snapshot.jobs.get(name)
        phase = job.phase if job is not None else Phase.PENDING
        detail = {"hosts": list(held.nodes), "start_ms": held.start_ms, "phase": phase.value}
        return Event(kind, self._draft.now_ms, name, None, 0, detail)


def stands(snapshot: Snapshot, held: Reservation) -> bool:
    """Whether every node of the hold still is there for it."""
    for name, takes in zip(held.nodes, held.takes, strict=True):
        node = snapshot.nodes.get(name)
        if node is None or not node.open or (node.all_mask & ~node.faulty).bit_count() < takes:
            return False
    return True


def _promise(held: Reservation | None) -> tuple[object, ...] | None:
    """What a hold says to people: that it has become firm or is so no more is no news to them."""
    return None if held is None else (held.nodes, held.takes, held.start_ms)
