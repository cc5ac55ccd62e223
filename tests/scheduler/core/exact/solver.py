"""The least cost of making room for a gang, and of moving others for it, as CP-SAT finds it.

A price is lexicographic, as the planner's is: GPUs of the most important class, then of the next, then the domain
(one host, one rack, several), then the work lost. All three are put in one sum whose parts cannot reach each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from ortools.sat.python import cp_model

from scheduler.core.types import Hint, JobSpec
from tests.scheduler.core.exact.fleets import RESTART_S, Fleet, Ran
from tests.scheduler.core.exact.rights import Rights

DOMAIN = 1 << 21
"""Above all work, in GPU-seconds, that a fleet of 96 GPUs can lose."""
CLASS = (1 << 37, 1 << 30, 1 << 23, 0)
"""By class: above all GPUs of the classes below it."""

Cell = dict[str, cp_model.IntVar]
Amount = cp_model.IntVar | int


@dataclass(frozen=True)
class Answer:
    """Who is stopped at the least cost, and that cost."""

    stopped: frozenset[str]
    cost: int
    domain: int


def cost_of(jobs: Iterable[Ran]) -> int:
    """What stopping these costs, the domain apart."""
    return sum(job.spec.gpus * (job.lost_s + RESTART_S + CLASS[job.spec.priority]) for job in jobs)


class Model:
    """Hosts, jobs that may stop, and the asker's place once they have."""

    def __init__(self, fleet: Fleet, victims: list[Ran]) -> None:
        self.fleet = fleet
        self.model = cp_model.CpModel()
        self.victims = victims
        self.stop = {job.spec.id: self.model.new_bool_var(f"stop {job.spec.id}") for job in victims}
        self.size = fleet.hosts[0].gpus
        self.domains: dict[int, list[cp_model.IntVar]] = {0: [], 1: [], 2: []}
        self.asker = self.place(fleet.asker, self.domains)

    def place(self, spec: JobSpec, domains: dict[int, list[cp_model.IntVar]], wanted: Amount = 1) -> Cell:
        """GPUs by host of a gang that sits by the shape rule in one domain; in none if ``wanted`` is 0."""
        model, size, gpus = self.model, self.size, spec.gpus
        hosts = self.fleet.hosts
        part = {host.name: model.new_int_var(0, size, f"{spec.id} on {host.name}") for host in hosts}
        model.add(sum(part.values()) == gpus * wanted)
        chosen: list[cp_model.IntVar] = []
        for level, members in self._choices(spec):
            here = model.new_bool_var(f"{spec.id} in {level} {len(chosen)}")
            domains[level].append(here)
            chosen.append(here)
            for host in hosts:
                if host.name not in members:
                    model.add(part[host.name] == 0).only_enforce_if(here)
        model.add(sum(chosen) == wanted)
        if spec.hint is not Hint.ANY and gpus > size:
            self._whole_hosts(spec, part, wanted)
        return part

    def _choices(self, spec: JobSpec) -> list[tuple[int, set[str]]]:
        """Every domain that the gang may sit in: its level and its hosts."""
        hosts, hint = self.fleet.hosts, spec.hint
        found: list[tuple[int, set[str]]] = []
        if spec.gpus <= self.size:
            found += [(0, {host.name}) for host in hosts]
        if hint is Hint.ANY or (spec.gpus > self.size and hint is not Hint.REQUIRE_SAME_HOST):
            for rack in sorted({(host.az, host.rack) for host in hosts}):
                found.append((1, {host.name for host in hosts if (host.az, host.rack) == rack}))
            if hint is not Hint.REQUIRE_SAME_RACK:
                for zone in sorted({host.az for host in hosts}):
                    found.append((2, {host.name for host in hosts if host.az == zone}))
        return found

    def _whole_hosts(self, spec: JobSpec, part: Cell, wanted: Amount) -> None:
        whole, rest = divmod(spec.gpus, self.size)
        full = {name: self.model.new_bool_var(f"{spec.id} fills {name}") for name in part}
        piece = {name: self.model.new_bool_var(f"{spec.id} ends on {name}") for name in part}
        self.model.add(sum(full.values()) == whole * wanted)
        self.model.add(sum(piece.values()) == (1 if rest else 0) * wanted)
        for name, gpus in part.items():
            self.model.add(gpus == self.size * full[name] + rest * piece[name])

    def fits(self, others: dict[str, Cell] | None = None) -> None:
        """Nobody gets a GPU, or a core, that somebody else has; ``others`` are jobs put elsewhere."""
        cells = [(self.fleet.asker, self.asker)]
        cells += [(job.spec, others[job.spec.id]) for job in self.victims if others is not None]
        for host in self.fleet.hosts:
            name = host.name
            stays = [job for job in self.fleet.jobs if name in job.on]
            for most, weight in ((host.gpus, _one), (host.cpus, _cpu)):
                held = sum(
                    weight(job.spec) * job.on[name] * (1 - self.stop.get(job.spec.id, 0))  # type: ignore[operator]
                    for job in stays
                )
                self.model.add(held + sum(weight(spec) * cell[name] for spec, cell in cells) <= most)

    def solve(self) -> Answer | None:
        """The least cost; None if there is no way at all."""
        level = sum(level * DOMAIN * sum(chosen) for level, chosen in self.domains.items())
        self.model.minimize(level + sum(cost_of([job]) * self.stop[job.spec.id] for job in self.victims))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        assert status == cp_model.OPTIMAL, solver.status_name(status)
        stopped = [job for job in self.victims if solver.value(self.stop[job.spec.id])]
        cost = cost_of(stopped)
        domain = next(level for level, chosen in self.domains.items() if any(map(solver.value, chosen)))
        return Answer(frozenset(job.spec.id for job in stopped), cost, domain)


def _one(spec: JobSpec) -> int:
    return 1


def _cpu(spec: JobSpec) -> int:
    return spec.cpu_per_rank


def victims(fleet: Fleet, rights: Rights) -> Answer | None:
    """The cheapest room for the asker by stopping jobs."""
    made = Model(fleet, rights.victims)
    made.fits()
    for name, most in rights.most.items():
        mine = [job for job in rights.victims if job.spec.team == name]
        made.model.add(sum(job.spec.gpus * made.stop[job.spec.id] for job in mine) <= max(0, most))
        if mine and name in rights.beyond:
            _last_alone_passes(made, mine, ceil(rights.beyond[name]) - 1)
    return made.solve()


def _last_alone_passes(made: Model, mine: list[Ran], most: int) -> None:
    """Without the largest of those stopped, no more GPUs than ``most`` are taken."""
    total = sum(job.spec.gpus * made.stop[job.spec.id] for job in mine)
    last = {job.spec.id: made.model.new_bool_var(f"last {job.spec.id}") for job in mine}
    made.model.add(sum(last.values()) <= 1)
    for name, chosen in last.items():
        made.model.add_implication(chosen, made.stop[name])
    made.model.add(total - sum(job.spec.gpus * last[job.spec.id] for job in mine) <= most)


def moves(fleet: Fleet, movable: list[Ran]) -> Answer | None:
    """The cheapest room for the asker by moving jobs: off the hosts that it takes and no others, each to another place,
    and no more GPUs than it asks for."""
    made = Model(fleet, movable)
    others = {job.spec.id: made.place(job.spec, {0: [], 1: [], 2: []}, made.stop[job.spec.id]) for job in movable}
    made.fits(others)
    for job in movable:
        made.model.add(sum(made.asker[name] for name in job.on) >= made.stop[job.spec.id])
    made.model.add(sum(job.spec.gpus * made.stop[job.spec.id] for job in movable) <= fleet.asker.gpus)
    return made.solve()
