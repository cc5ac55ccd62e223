"""What a simulation is measured by, from its decision log alone: utilisation, waits by size, racks, lost work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = Mapping[str, Any]

DAY_S = 86_400
SIZE_CLASSES: tuple[tuple[str, int], ...] = (("1", 1), ("2-8", 8), ("9-64", 64), ("65+", 10**9))
"""Name, and the largest gang that belongs to it, in GPUs."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from submission to start: of ``count`` jobs the mean, quantiles and the longest; None without a job."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    longest: float | None = None


def waits_of(seconds: Sequence[float]) -> Waits:
    """The figures of these waits; quantiles are the values of an actual job (nearest rank)."""
    if not seconds:
        return Waits(0)
    ranked = sorted(seconds)
    p50, p90, p99 = (ranked[-(-len(ranked) * percent // 100) - 1] for percent in (50, 90, 99))
    return Waits(len(ranked), sum(ranked) / len(ranked), p50, p90, p99, ranked[-1])


@dataclass(slots=True)
class _Job:
    submitted: float
    gpus: int
    started: float | None = None
    ended: float | None = None
    bound: float = 0
    gpu_type: str = ""
    stopped: float | None = None


@dataclass(frozen=True)
class Report:
    """The figures of a simulation. Times are seconds, utilisations shares of the whole from 0 to 1.

    ``utilisation`` is by GPU type, ``all`` among them, over the whole time; ``late_utilisation`` from the fourth day
    on. ``waits`` are those of jobs that started, by size class; ``waits_with_waiting`` count those that still wait
    as having waited until the end. ``one_rack`` is the share of multi-host attempts that lie in one rack.
    ``lost_gpu_hours``: work that no checkpoint held, and what gangs held between the order to stop and their release.
    """

    length_s: float
    submitted: int
    rejected: int
    started: int
    finished: int
    utilisation: dict[str, float]
    late_utilisation: dict[str, float]
    waits: dict[str, Waits]
    waits_with_waiting: dict[str, Waits]
    one_rack: float | None
    multi_host: int
    stops: int
    used_gpu_hours: float
    lost_gpu_hours: float


class Metrics:
    """Takes in the decision log; ``report`` closes it at a moment."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._racks: dict[str, tuple[str, str]] = {}
        self._types: dict[str, str] = {}
        self._capacity: Counter[str] = Counter()
        self._busy: defaultdict[str, list[tuple[float, float, int]]] = defaultdict(list)
        self._rejected = 0
        self._finished = 0
        self._stops = 0
        self._stopping_s = 0.0
        self._multi_host = 0
        self._one_rack = 0

    def take(self, line: Line) -> None:
        take = getattr(self, f"_{line['kind']}", None)
        if take is not None:
            take(line)

    def _fleet(self, line: Line) -> None:
        for row in line["hosts"]:
            self._racks[row["host"]] = (row["az"], row["rack"])
            self._types[row["host"]] = row["gpu_type"]
            self._capacity[row["gpu_type"]] += row["gpus"]

    def _submit(self, line: Line) -> None:
        if line["state"] == "REJECTED":
            self._rejected += 1
        else:
            self._jobs[line["job"]] = _Job(line["t"], line["gpus"])

    def _bind(self, line: Line) -> None:
        job = self._jobs[line["job"]]
        hosts = line["gpus"]
        job.bound, job.gpu_type = line["t"], self._types[next(iter(hosts))]
        if len(hosts) > 1:
            self._multi_host += 1
            self._one_rack += len({self._racks[host] for host in hosts}) == 1

    def _start(self, line: Line) -> None:
        job = self._jobs[line["job"]]
        if job.started is None:
            job.started = line["t"]

    def _stop(self, line: Line) -> None:
        self._stops += 1
        self._jobs[line["job"]].stopped = line["t"]

    def _release(self, line: Line) -> None:
        job = self._jobs[line["job"]]
        self._busy[job.gpu_type].append((job.bound, line["t"], job.gpus))
        job.gpu_type = ""
        if job.stopped is not None:
            self._stopping_s += (line["t"] - job.stopped) * job.gpus
            job.stopped = None

    def _end(self, line: Line) -> None:
        self._jobs[line["job"]].ended = line["t"]
        self._finished += line["state"] == "SUCCEEDED"

    # --- the report

    def report(self, until_s: float, lost_work_gpu_hours: float) -> Report:
        """The figures up to ``until_s``; attempts that still hold GPUs count until then."""
        for job in self._jobs.values():
            if job.gpu_type:
                self._busy[job.gpu_type].append((job.bound, until_s, job.gpus))
        return Report(
            length_s=until_s,
            submitted=len(self._jobs),
            rejected=self._rejected,
            started=sum(job.started is not None for job in self._jobs.values()),
            finished=self._finished,
            utilisation=self._utilisation(0, until_s),
            late_utilisation=self._utilisation(3 * DAY_S, until_s),
            waits=self._waits(until_s, with_waiting=False),
            waits_with_waiting=self._waits(until_s, with_waiting=True),
            one_rack=self._one_rack / self._multi_host if self._multi_host else None,
            multi_host=self._multi_host,
            stops=self._stops,
            used_gpu_hours=sum(_area(spans, 0, until_s) for spans in self._busy.values()) / 3600,
            lost_gpu_hours=lost_work_gpu_hours + self._stopping_s / 3600,
        )

    def _utilisation(self, from_s: float, until_s: float) -> dict[str, float]:
        """By GPU type and in all, the share of GPU time that was held; empty for no time at all."""
        if until_s <= from_s:
            return {}
        held = {kind: _area(self._busy[kind], from_s, until_s) for kind in self._capacity}
        shares = {kind: held[kind] / (count * (until_s - from_s)) for kind, count in sorted(self._capacity.items())}
        return {"all": sum(held.values()) / (self._capacity.total() * (until_s - from_s)), **shares}

    def _waits(self, until_s: float, with_waiting: bool) -> dict[str, Waits]:
        found: dict[str, list[float]] = {"all": [], **{name: [] for name, _ in SIZE_CLASSES}}
        for job in self._jobs.values():
            end = job.started
            if end is None:
                if not with_waiting or job.ended is not None:
                    continue
                end = until_s
            found["all"].append(end - job.submitted)
            found[size_class(job.gpus)].append(end - job.submitted)
        return {name: waits_of(seconds) for name, seconds in found.items()}


def size_class(gpus: int) -> str:
    return next(name for name, largest in SIZE_CLASSES if gpus <= largest)


def _area(spans: Iterable[tuple[float, float, int]], from_s: float, until_s: float) -> float:
    """GPU seconds of the spans between two moments."""
    return sum(max(0.0, min(end, until_s) - max(begin, from_s)) * gpus for begin, end, gpus in spans)
