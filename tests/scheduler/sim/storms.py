"""Storms: random clusters, quota trees, jobs and mishaps by seed, played to their end, and what must hold of every one.

    python -m tests.scheduler.sim.storms FROM TO

plays the seeds FROM up to TO and prints what broke. What is tested in the suite is ``test_storms``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scheduler.sim.log import Line
from scheduler.sim.log_file import without_chatter
from scheduler.sim.run import Result, run
from scheduler.sim.scenario import read

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
CALM_S = 6 * DAY_S
"""When the storm is long over: another leader takes over and has to find everything as it should be."""

NEWS = frozenset({"bind", "start", "stop", "reserve", "unreserve", "end", "release"})
SWAP_S = HOUR_S

Mapping = dict[str, Any]


def _seconds(number: int) -> str:
    return f"{number}s"


def _sometimes(rng: random.Random, odds: float, into: Mapping, **choices: list[Any]) -> None:
    for key, values in choices.items():
        if rng.random() < odds:
            into[key] = rng.choice(values)


class Storm:
    """One storm in the making; ``scenario`` is the whole of it in the scenario format."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._lasts = self._rng.choice([1, 2, 4]) * HOUR_S
        self._jobs: list[str] = []
        self._events: list[tuple[int, Mapping]] = []
        self._fleet, self._hosts = self._make_fleet()
        self._quota, self._teams = self._make_quota()
        for at, number in zip(self._moments(self._rng.randint(5, 40)), range(99), strict=False):
            self._submit(at, f"j{number}")
        for at in self._moments(self._rng.randint(0, 10)):
            self._befall(at)
        self._add(CALM_S, leader_crash={"down": "1s"})
        self.scenario = self._whole(f"storm {seed}")

    def _whole(self, title: str) -> Mapping:
        settings: Mapping = {}
        _sometimes(self._rng, 0.3, settings, repair=[True], grace=["30s", "600s"], min_runtime=["600s"])
        _sometimes(self._rng, 0.15, settings, backfill=[False], reservation_after=["600s"], length_weight=[0.5])
        events = [{"at": _seconds(at), **event} for at, event in sorted(self._events, key=lambda event: event[0])]
        end = [{"at": _seconds(CALM_S + HOUR_S), "stops_at_most": 10_000}]
        whole: Mapping = {"title": title, "fleet": self._fleet, "events": events, "expect": end}
        return {
            **whole,
            **({"settings": settings} if settings else {}),
            **({"quota": self._quota} if self._quota else {}),
        }

    def _add(self, at: int, **event: Any) -> None:
        self._events.append((at, event))

    def _moments(self, count: int) -> list[int]:
        return sorted(self._rng.randint(0, self._lasts) for _ in range(count))

    def _soon(self, at: int, within: int = 2_000) -> int:
        return at + self._rng.randint(1, within)

    # --- what there is

    def _make_fleet(self) -> tuple[list[Mapping], list[str]]:
        rng = self._rng
        fleet: list[Mapping] = []
        hosts: list[str] = []
        types = rng.choice([["H100"], ["H100"], ["H100", "A100"]])
        for az in ("az1", "az2")[: rng.choice([1, 1, 2])]:
            for rack in range(rng.randint(1, 3)):
                line: Mapping = {"az": az, "rack": f"{az}r{rack}", "hosts": rng.randint(1, 5), "name": f"{az}x{rack}h"}
                line["gpu_type"] = rng.choice(types) if fleet else "H100"
                _sometimes(rng, 0.2, line, gpus=[1, 2, 4], spot=["aws", "gcp", "azure"], memory_gb=[512, 1024])
                fleet.append(line)
                hosts += [f"{line['name']}{at}" for at in range(1, line["hosts"] + 1)]
        return fleet, hosts

    def _make_quota(self) -> tuple[Mapping, list[str]]:
        rng, tree, teams = self._rng, {}, []
        if rng.random() < 0.25:
            return {}, ["ml", "b"]
        for org in range(rng.randint(1, 3)):
            node = tree[f"o{org}"] = self._branch([8, 16, 24])
            _sometimes(rng, 0.6, node, share=[0, 1, 2, 5, 0.001, 40])
            if rng.random() < 0.5:
                teams.append(f"o{org}")
                continue
            names = [f"t{org}{at}" for at in range(rng.randint(1, 3))]
            node["children"] = {name: self._branch([4, 8, 16]) for name in names}
            teams += names
        return tree, teams

    def _branch(self, ceilings: list[int]) -> Mapping:
        node: Mapping = {}
        _sometimes(self._rng, 0.4, node, floor=[{"H100": gpus} for gpus in (0, 2, 4, 8, 16)], share=[0, 1, 3])
        _sometimes(self._rng, 0.25, node, ceiling=[{"H100": gpus} for gpus in ceilings])
        _sometimes(self._rng, 0.15, node, min_runtime=["300s", "1800s"], reclaim=["floor"], p0=[False])
        return node

    # --- who wants what

    def _submit(self, at: int, name: str) -> None:
        rng = self._rng
        job: Mapping = {
            "job": name,
            "team": rng.choice(self._teams),
            "gpus": rng.choice([1, 1, 1, 2, 3, 4, 4, 8, 8, 12, 16, 20, 24]),
            "runtime": _seconds(rng.choice([60, 300, 900, 1_800, 3_600, 7_200])),
            "max_runtime": _seconds(rng.choice([600, 1_200, 3_600, 7_200, 14_400, 86_400])),
        }
        hints = ["any", "prefer_same_rack", "require_same_rack", "prefer_same_host", "require_same_host"]
        _sometimes(rng, 0.5, job, priority=["P0", "P1", "P2", "P3"], hint=hints)
        _sometimes(
            rng, 0.5, job, checkpoint=[None, {"every": "300s", "takes": "5s"}, {"every": "600s", "takes": "200s"}]
        )
        _sometimes(rng, 0.25, job, gpu_type=["any", "H100", "A100"], start_takes=["10s", "60s", "300s"])
        _sometimes(rng, 0.2, job, cpu_per_rank=[16, 32], memory_per_rank_gb=[128, 400], max_restarts=[0, 1, 2])
        _sometimes(rng, 0.15, job, on_preemption=["restart", "fail"], on_node_failure=["restart", "fail"])
        _sometimes(rng, 0.1, job, scratch_disk_gb=[3_000], exit_code=[1], spot_ok=[False], count=[2, 5])
        if self._jobs:
            _sometimes(rng, 0.1, job, after=[[other] for other in self._jobs])
        self._add(at, submit=job)
        self._jobs.append(name)
        self._trouble(at, f"{name}[0]" if "count" in job else name)

    def _trouble(self, at: int, job: str) -> None:
        """What its people, its own code and its hosts' agents do to a job."""
        rng = self._rng
        if rng.random() < 0.12:
            self._add(self._soon(at), cancel=job)
        if rng.random() < 0.08:
            held = self._soon(at, 600)
            self._add(held, hold=job)
            self._add(self._soon(held), release=job)
        if rng.random() < 0.06:
            self._add(self._soon(at), stall={"job": job, "what": rng.choice(["start", "checkpoint", "stop"])})
        if rng.random() < 0.12:
            self._add(self._soon(at), rank_exit={"job": job, "rank": 0, "code": rng.choice([0, 1])})
        if rng.random() < 0.08:
            state = rng.choice(["RUNNING", "SUCCEEDED", "FAILED"])
            self._add(self._soon(at), report={"job": job, "attempt": rng.choice([1, 2]), "rank": 0, "state": state})

    # --- what befalls the fleet and its rulers

    def _befall(self, at: int) -> None:
        host = self._rng.choice(self._hosts)
        mishaps: list[Callable[[int, str], None]] = [
            self._silence,
            self._cordon,
            self._break_gpu,
            self._notice,
            self._close,
            self._reserve,
            self._crash,
            self._cut_off,
            self._edit,
        ]
        self._rng.choice(mishaps)(at, host)

    def _silence(self, at: int, host: str) -> None:
        self._add(at, node_down=host)
        self._add(at + self._rng.choice([10, 20, 60, 300, 900]), **{self._rng.choice(["node_up", "node_back"]): host})

    def _cordon(self, at: int, host: str) -> None:
        self._add(at, **{self._rng.choice(["cordon", "drain"]): host})
        self._add(at + self._rng.choice([1, 10, 300, 1_200]), uncordon=host)

    def _break_gpu(self, at: int, host: str) -> None:
        self._add(at, gpu_fault={"host": host, "gpu": 0})
        self._add(self._soon(at), gpu_ok={"host": host, "gpu": 0})

    def _notice(self, at: int, host: str) -> None:
        self._add(at, spot_notice={"host": host, "seconds": self._rng.choice([30, 120])})

    def _close(self, at: int, host: str) -> None:
        start = self._soon(at)
        window = {"start": _seconds(start), "end": _seconds(self._soon(start))}
        self._add(at, maintenance={"hosts": [host], **window})

    def _reserve(self, at: int, host: str) -> None:
        start = self._soon(at)
        wanted = {"team": self._rng.choice(self._teams), "gpus": self._rng.choice([4, 8, 16]), "gpu_type": "H100"}
        window = {"start": _seconds(start), "end": _seconds(self._soon(start))}
        self._add(at, reserve={"name": f"r{at}-{host}", **wanted, **window})

    def _crash(self, at: int, host: str) -> None:
        self._add(at, leader_crash={"down": self._rng.choice(["1s", "5s", "30s"])})

    def _cut_off(self, at: int, host: str) -> None:
        self._add(at, store_down={"for": self._rng.choice(["5s", "60s", "400s"])})

    def _edit(self, at: int, host: str) -> None:
        edits = [{"share": 3}, {"floor": {"H100": 8}}, {"ceiling": {"H100": 8}}, {"ceiling": {"H100": 32}}]
        if self._quota:
            self._add(at, quota={self._rng.choice(list(self._quota)): self._rng.choice(edits)})


# --- what came of it ------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a storm has left behind: the log, the result, what is wrong with it."""

    result: Result
    lines: list[Line]
    wrong: list[str] = field(default_factory=list)


def play(seed: int) -> Outcome:
    """Play a storm and look at all that must hold of it."""
    scenario = Storm(seed).scenario
    lines: list[Line] = []
    with without_chatter():
        result = run(read(f"storm-{seed}.yaml", scenario), [lines.append])
    outcome = Outcome(result, lines, [*result.invariants, *(str(failure) for failure in result.failed)])
    outcome.wrong += _back_first(lines, _released_by_people(scenario))
    outcome.wrong += _swaps(lines)
    outcome.wrong += _late_news(lines, _stalled(scenario))
    return outcome


def _released_by_people(scenario: Mapping) -> set[str]:
    return {event["hold"] for event in scenario["events"] if "hold" in event}


def _stalled(scenario: Mapping) -> set[str]:
    return {event["stall"]["job"] for event in scenario["events"] if "stall" in event}


def _back_first(lines: list[Line], held: set[str]) -> Iterator[str]:
    """A victim is not back on one of its hosts, at the moment that it left, before the one it was stopped for."""
    asked_for: dict[str, str | None] = {}
    left: dict[str, tuple[float, set[str]]] = {}
    for line in lines:
        kind, job = line["kind"], str(line.get("job"))
        if kind == "stop":
            asked_for[job] = line["for"]
        elif kind == "release":
            left[job] = (line["t"], set(line["gpus"]))
        elif kind in ("bind", "end"):
            for victim in [name for name, asker in asked_for.items() if asker == job]:
                del asked_for[victim]
            asker = asked_for.pop(job, None)
            if kind == "bind" and asker is not None and asker not in held:
                t, hosts = left[job]
                if t == line["t"] and hosts & set(line["gpus"]):
                    yield f"{t:g}s: {job} was stopped for {asker} and is back first"


def _swaps(lines: list[Line]) -> Iterator[str]:
    """No two jobs stop each other in turns, but for an edit of the quota tree between."""
    stops: dict[tuple[str, str], float] = {}
    for line in lines:
        if line["kind"] == "quota":
            stops.clear()
        if line["kind"] == "stop" and line["for"] is not None:
            before = stops.get((line["for"], line["job"]))
            if before is not None and line["t"] - before < SWAP_S:
                yield f"{line['t']:g}s: {line['job']} is stopped for {line['for']}, stopped for it at {before:g}s"
            stops[line["job"], line["for"]] = line["t"]


def _late_news(lines: list[Line], stalled: set[str]) -> Iterator[str]:
    """Long after the storm another leader finds nothing to do, but with jobs that go on failing to start."""
    failing = {line["job"] for line in lines if line["kind"] == "stop" and line["cause"] == "start_timeout"}
    failing |= {line["job"] for line in lines if line.get("job", "").partition("[")[0] in _names(stalled)}
    for line in lines:
        if line["t"] >= CALM_S and line["kind"] in NEWS and line["job"] not in failing:
            yield f"{line['t']:g}s: a new leader finds that {line['job']} has to {line['kind']}"


def _names(jobs: set[str]) -> set[str]:
    return {job.partition("[")[0] for job in jobs}


def main(first: int, last: int) -> int:
    broken = 0
    for seed in range(first, last):
        begin = time.process_time()
        try:
            wrong = play(seed).wrong
        except Exception as failure:
            wrong = [f"{type(failure).__name__}: {failure}"]
        took = time.process_time() - begin
        if wrong or took > 2:
            print(f"{seed:5} {took:5.1f} s  {len(wrong)} wrong  {' | '.join(wrong[:3])}", flush=True)
        broken += bool(wrong)
    print(f"{broken} of {last - first} storms broke something")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
