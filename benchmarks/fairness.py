"""Whether all get what the quota tree says, from the decision log alone: floors unmet, shares while contended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.sim.log import Line
from scheduler.sim.metrics import DAY_S

Spot = tuple[str, str]
"""A node of the quota tree and a GPU type."""


@dataclass(slots=True)
class _Job:
    team: str
    gpu_type: str
    gpus: int
    waits: bool = False
    over: bool = False


class Fairness:
    """Takes in the decision log, line by line; ``close`` ends it.

    ``unmet``: every time that a node was below a floor while a job of its own that fits in it waited, as seconds with
    the node and the GPU type. ``drifts``: by GPU type and day, while somebody waited, which part of the GPU time each
    top node held beyond what its share says: what is held is filled up by shares, to nobody more than it wants.
    """

    def __init__(self) -> None:
        self.unmet: list[tuple[float, Spot]] = []
        self.entitled: dict[str, float] = {}
        self._floors: dict[Spot, int] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._jobs: dict[str, _Job] = {}
        self._held: Counter[Spot] = Counter()
        self._waiting: defaultdict[Spot, Counter[int]] = defaultdict(Counter)
        self._unmet_since: dict[Spot, float] = {}
        self._touched: set[Spot] = set()
        self._now = 0.0
        self._beyond: defaultdict[tuple[str, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._time: defaultdict[tuple[str, int], float] = defaultdict(float)
        self._contended: defaultdict[tuple[str, int], float] = defaultdict(float)

    def take(self, line: Line) -> None:
        if line["t"] > self._now:
            self._pass_to(line["t"])
        kind = line["kind"]
        if kind == "fleet":
            shares = {name: float(node.get("share", 1)) for name, node in line["quota"].items()}
            self.entitled = {name: share / sum(shares.values()) for name, share in shares.items()}
            self._read(line["quota"], ())
        elif kind == "submit" and line["state"] != "REJECTED":
            job = self._jobs[line["job"]] = _Job(line["team"], line["gpu_type"], line["gpus"])
            self._wait(job, True)
        elif kind in ("bind", "release"):
            job = self._jobs[line["job"]]
            self._wait(job, kind == "release")
            for spot in self._spots(job):
                self._held[spot] += job.gpus if kind == "bind" else -job.gpus
        elif kind == "end":
            self._wait(self._jobs[line["job"]], False)
            self._jobs[line["job"]].over = True

    def close(self, at_s: float) -> None:
        """What is unmet still has been so until then."""
        self._pass_to(at_s)
        self.unmet += [(at_s - since, spot) for spot, since in self._unmet_since.items()]
        self._unmet_since.clear()

    def drifts(self) -> Iterator[tuple[str, int, float, dict[str, float]]]:
        """GPU type, day from 1 on, seconds in which somebody waited, and each top node's drift as a part of 1."""
        for (gpu_type, day), beyond in sorted(self._beyond.items()):
            whole = self._time[gpu_type, day]
            drift = {name: beyond[name] / whole for name in self.entitled} if whole else {}
            yield gpu_type, day + 1, self._contended[gpu_type, day], drift

    def _read(self, nodes: Mapping[str, Any], above: tuple[str, ...]) -> None:
        for name, node in nodes.items():
            self._paths[name] = (*above, name)
            self._floors.update({(name, gpu_type): gpus for gpu_type, gpus in node.get("floor", {}).items()})
            self._read(node.get("children", {}), (*above, name))

    def _spots(self, job: _Job) -> list[Spot]:
        spots = [(name, job.gpu_type) for name in self._paths[job.team]]
        self._touched.update(spots)
        return spots

    def _wait(self, job: _Job, waits: bool) -> None:
        if job.waits is not waits and not job.over:
            job.waits = waits
            for spot in self._spots(job):
                self._waiting[spot][job.gpus] += 1 if waits else -1

    def _pass_to(self, at_s: float) -> None:
        """Everything of the last moment is known: judge it, and let it last until ``at_s``."""
        for spot in self._touched & self._floors.keys():
            room = self._floors[spot] - self._held[spot]
            fits = any(jobs and gpus <= room for gpus, jobs in self._waiting[spot].items())
            if fits:
                self._unmet_since.setdefault(spot, self._now)
            elif spot in self._unmet_since:
                self.unmet.append((self._now - self._unmet_since.pop(spot), spot))
        self._touched.clear()
        for gpu_type in {gpu_type for _, gpu_type in self._held}:
            self._share(gpu_type, at_s)
        self._now = at_s

    def _share(self, gpu_type: str, until_s: float) -> None:
        held = {name: self._held[name, gpu_type] for name in self.entitled}
        waiting = {name: _gpus(self._waiting[name, gpu_type]) for name in self.entitled}
        whole = sum(held.values())
        if not whole or not any(waiting.values()):
            return
        wanted = {name: held[name] + waiting[name] for name in self.entitled}
        own = filled(whole, wanted, self.entitled)
        begin = self._now
        while begin < until_s:
            day = int(begin // DAY_S)
            end = min(until_s, (day + 1) * DAY_S)
            self._contended[gpu_type, day] += end - begin
            self._time[gpu_type, day] += (end - begin) * whole
            for name in self.entitled:
                self._beyond[gpu_type, day][name] += (end - begin) * (held[name] - own[name])
            begin = end


def filled(whole: float, wanted: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, float]:
    """``whole`` given out by shares, to nobody more than is wanted; what one does not want is the others'."""
    given = dict.fromkeys(wanted, 0.0)
    hungry = {name for name in wanted if wanted[name] > 0}
    while hungry and whole > 1e-9:
        part = whole / sum(shares[name] for name in hungry)
        level = min(min((wanted[name] - given[name]) / shares[name] for name in hungry), part)
        for name in hungry:
            given[name] += level * shares[name]
            whole -= level * shares[name]
        hungry = {name for name in hungry if wanted[name] - given[name] > 1e-9}
    return given


def _gpus(waiting: Counter[int]) -> int:
    return sum(gpus * jobs for gpus, jobs in waiting.items())
