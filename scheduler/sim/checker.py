"""Replays a decision log and says what in it must not be. It knows the format of the log and nothing of the planner.

What it holds the log to, by the numbers of the scenario format's invariants: 1 (a GPU belongs to one attempt), 2 (all
GPUs or none, one AZ, one type, the shape of a placement), 3 (nothing starts unbound), 4 (ceilings, at every level),
5 (GPUs are given back once, by the attempt that holds them, after a stop or an end), 6 (a planned stop waits for the
checkpoint, the exit or the grace), 8 (reclaim leaves floors), 9 (a terminal job stays so); further: hosts that take no
work, broken GPUs, spot hosts, hints, fencing tokens that rise, and silence while the store is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.sim.checked_quota import CheckedQuota

Line = Mapping[str, Any]

UNPLANNED = frozenset({"node_failure", "rank_failure", "start_timeout"})
DECISIONS = frozenset({"bind", "start", "stop", "checkpoint", "exit", "release", "end", "reserve", "unreserve"})


@dataclass(slots=True)
class _Host:
    az: str
    rack: str
    gpu_type: str
    spot: str | None
    owners: list[tuple[str, int] | None]
    faulty: set[int] = field(default_factory=set)
    state: str = "READY"


@dataclass(slots=True)
class _Attempt:
    number: int
    gpus: dict[str, list[int]]
    gpu_type: str
    started: bool = False
    stop_t: float | None = None
    cause: str | None = None
    deadline: float | None = None
    saved: bool = False
    exits: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Job:
    team: str
    gpus: int
    gpu_type: str
    hint: str
    spot_ok: bool | None
    state: str
    attempt: _Attempt | None = None
    last_attempt: int = 0
    ended: bool = False


class Checker:
    """Feed it line by line; each call answers the violations of that line in words."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._jobs: dict[str, _Job] = {}
        self._quota = CheckedQuota({})
        self._t = 0.0
        self._fence = 0
        self._store_is_up = True

    def take(self, line: Line) -> list[str]:
        kind = line["kind"]
        wrong = list(self._before(line, kind))
        check = _CHECKS.get(kind)
        if check is not None:
            wrong += check(self, line)
        return [f"{kind} of {line.get('job') or line.get('host') or 'the run'}: {text}" for text in wrong]

    def _before(self, line: Line, kind: str) -> Iterator[str]:
        if line["t"] < self._t:
            yield f"t goes back from {self._t:g} to {line['t']:g}"
        self._t = line["t"]
        if kind in DECISIONS and not self._store_is_up:
            yield "committed while the store is down"

    # --- the run

    def _fleet(self, line: Line) -> Iterator[str]:
        for row in line["hosts"]:
            if row["host"] in self._hosts:
                yield f"two hosts are called {row['host']}"
            self._hosts[row["host"]] = _Host(row["az"], row["rack"], row["gpu_type"], row["spot"], [None] * row["gpus"])
        self._quota = CheckedQuota(line["quota"])

    def _edit(self, line: Line) -> Iterator[str]:
        self._quota.replace(line["quota"])
        yield from ()

    def _leader(self, line: Line) -> Iterator[str]:
        if line["fence"] <= self._fence:
            yield f"the fencing token {line['fence']} does not rise above {self._fence}"
        self._fence = line["fence"]

    def _store(self, line: Line) -> Iterator[str]:
        self._store_is_up = line["state"] == "up"
        yield from ()

    def _host(self, line: Line) -> Iterator[str]:
        self._hosts[line["host"]].state = line["state"]
        yield from ()

    def _gpu(self, line: Line) -> Iterator[str]:
        faulty = self._hosts[line["host"]].faulty
        if line["state"] == "FAULTY":
            faulty.add(line["gpu"])
        else:
            faulty.discard(line["gpu"])
        yield from ()

    # --- jobs

    def _submit(self, line: Line) -> Iterator[str]:
        if line["job"] in self._jobs:
            yield "submitted twice"
        self._jobs[line["job"]] = _Job(
            line["team"], line["gpus"], line["gpu_type"], line["hint"], line["spot_ok"], line["state"]
        )

    def _bind(self, line: Line) -> Iterator[str]:
        job = self._jobs[line["job"]]
        if job.ended or job.state == "REJECTED":
            yield "bound after its end"
        if job.attempt is not None:
            yield f"bound while attempt {job.attempt.number} holds GPUs"
        if line["attempt"] <= job.last_attempt:
            yield f"attempt {line['attempt']} does not come after {job.last_attempt}"
        if line["fence"] != self._fence:
            yield f"bound under token {line['fence']} while {self._fence} leads"
        placed = line["gpus"]
        yield from self._where(job, placed)
        gpu_type = self._hosts[next(iter(placed))].gpu_type
        yield from self._occupy(line["job"], line["attempt"], placed)
        job.last_attempt = line["attempt"]
        job.attempt = _Attempt(line["attempt"], placed, gpu_type)
        yield from self._quota.charge(job.team, gpu_type, job.gpus)

    def _where(self, job: _Job, placed: Mapping[str, list[int]]) -> Iterator[str]:
        hosts = [self._hosts[host] for host in placed]
        count = sum(map(len, placed.values()))
        if count != job.gpus:
            yield f"gets {count} GPUs of the {job.gpus} that it asked for"
        if len({host.az for host in hosts}) != 1:
            yield "lies in more than one AZ"
        types = {host.gpu_type for host in hosts}
        if len(types) != 1 or (job.gpu_type != "any" and types != {job.gpu_type}):
            yield f"is on {', '.join(sorted(types))}, asked for {job.gpu_type}"
        if job.spot_ok is False and any(host.spot for host in hosts):
            yield "is on a spot host, which it does not want"
        for name, host in zip(placed, hosts, strict=True):
            if host.state != "READY":
                yield f"{name} is {host.state}"
        yield from self._shape(job, placed)

    def _shape(self, job: _Job, placed: Mapping[str, list[int]]) -> Iterator[str]:
        racks = {(self._hosts[host].az, self._hosts[host].rack) for host in placed}
        if job.hint == "require_same_rack" and len(racks) > 1:
            yield f"lies in {len(racks)} racks and requires one"
        if job.hint == "require_same_host" and len(placed) > 1:
            yield f"lies on {len(placed)} hosts and requires one"
        broken = [host for host, gpus in placed.items() if len(gpus) < len(self._hosts[host].owners)]
        if job.hint != "any" and (len(broken) > 1 or (broken and len(placed) > 1 and job.gpus <= self._size(placed))):
            yield f"is in pieces on {', '.join(broken)}"

    def _size(self, placed: Mapping[str, list[int]]) -> int:
        """GPUs of the largest host that it lies on: a gang of so many needs one host."""
        return max(len(self._hosts[host].owners) for host in placed)

    def _occupy(self, job: str, attempt: int, placed: Mapping[str, list[int]]) -> Iterator[str]:
        for name, gpus in placed.items():
            host = self._hosts[name]
            for gpu in gpus:
                if not 0 <= gpu < len(host.owners):
                    yield f"{name} has no GPU {gpu}"
                    continue
                if host.owners[gpu] is not None:
                    yield f"GPU {gpu} of {name} belongs to {host.owners[gpu]}"
                if gpu in host.faulty:
                    yield f"GPU {gpu} of {name} is broken"
                host.owners[gpu] = (job, attempt)

    def _start(self, line: Line) -> Iterator[str]:
        attempt = self._attempt(line)
        if attempt is None:
            yield "starts an attempt that holds no GPUs"
        elif attempt.started:
            yield "starts twice"
        else:
            attempt.started = True

    def _stop(self, line: Line) -> Iterator[str]:
        attempt = self._attempt(line)
        if attempt is None:
            yield "stops an attempt that holds no GPUs"
            return
        deadline = line["deadline"]
        if (deadline is None) != (line["cause"] in UNPLANNED) and attempt.started:
            yield f"a stop by {line['cause']} with deadline {deadline}"
        if deadline is not None and deadline < line["t"]:
            yield f"the deadline {deadline:g} is over already"
        job = self._jobs[line["job"]]
        if attempt.stop_t is None:
            attempt.stop_t = line["t"]
            self._quota.stopping(job.team, attempt.gpu_type, job.gpus)
            if line["cause"] == "reclaim":
                yield from self._floors(line, job, attempt)
        attempt.cause, attempt.deadline = line["cause"], deadline

    def _floors(self, line: Line, job: _Job, attempt: _Attempt) -> Iterator[str]:
        evictor = self._jobs.get(line["for"]) if line["for"] is not None else None
        if evictor is None:
            yield "reclaims for nobody"
        else:
            yield from self._quota.below_floor(job.team, evictor.team, attempt.gpu_type)

    def _checkpoint(self, line: Line) -> Iterator[str]:
        attempt = self._attempt(line)
        if attempt is None:
            yield "of an attempt that holds no GPUs"
        elif attempt.stop_t is not None:
            attempt.saved = True

    def _exit(self, line: Line) -> Iterator[str]:
        attempt = self._attempt(line)
        if attempt is None:
            yield "of an attempt that holds no GPUs"
        else:
            attempt.exits.add(line["rank"])

    def _end(self, line: Line) -> Iterator[str]:
        job = self._jobs[line["job"]]
        if job.ended:
            yield "ends twice"
        if job.state == "REJECTED":
            yield "ends though it was rejected"
        job.ended = True

    def _release(self, line: Line) -> Iterator[str]:
        job = self._jobs[line["job"]]
        attempt = self._attempt(line)
        if attempt is None:
            yield "gives back GPUs that it does not hold"
            return
        if attempt.gpus != line["gpus"]:
            yield "gives back other GPUs than it was bound to"
        if attempt.stop_t is None and not job.ended:
            yield "gives back GPUs without a stop or an end"
        yield from self._grace(line, job, attempt)
        for name, gpus in attempt.gpus.items():
            for gpu in gpus:
                self._hosts[name].owners[gpu] = None
        self._quota.discharge(job.team, attempt.gpu_type, job.gpus, attempt.stop_t is not None)
        job.attempt = None

    def _grace(self, line: Line, job: _Job, attempt: _Attempt) -> Iterator[str]:
        planned = attempt.stop_t is not None and attempt.cause not in UNPLANNED and attempt.started
        exited = len(attempt.exits) == job.gpus
        if planned and not attempt.saved and not exited and (attempt.deadline is None or line["t"] < attempt.deadline):
            yield "stopped before its checkpoint, its exit or the end of its grace"

    # --- the end

    def finish(self) -> list[str]:
        """What is wrong with the log as a whole, once it is over."""
        return [f"{name} is over and holds GPUs" for name, job in self._jobs.items() if job.ended and job.attempt]

    def _attempt(self, line: Line) -> _Attempt | None:
        """The attempt that a line speaks of, if it holds GPUs."""
        attempt = self._jobs[line["job"]].attempt
        return attempt if attempt is not None and attempt.number == line["attempt"] else None


_CHECKS: dict[str, Callable[[Checker, Line], Iterable[str]]] = {
    "fleet": Checker._fleet,
    "submit": Checker._submit,
    "bind": Checker._bind,
    "start": Checker._start,
    "stop": Checker._stop,
    "checkpoint": Checker._checkpoint,
    "exit": Checker._exit,
    "release": Checker._release,
    "end": Checker._end,
    "host": Checker._host,
    "gpu": Checker._gpu,
    "store": Checker._store,
    "quota": Checker._edit,
    "leader": Checker._leader,
}
