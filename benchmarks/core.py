"""How fast the decision core is, alone and on one core: ``python -m benchmarks.core [--json FILE] [NAME …]``.

The job mixes are those of ../shared/peers/slurm/bench.py on 1,250 hosts of 8 GPUs in 32 racks and 2 zones, 70 % H100,
20 % A100, 10 % L40S. Exit status 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import process_time

from benchmarks.table import Figure, show
from scheduler.core.plan import plan
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import (
    CheckpointSpec,
    GangReport,
    JobChange,
    JobIntent,
    JobSpec,
    NodeChange,
    NodeIntent,
    NodeReport,
    Phase,
    Plan,
    Policy,
    QuotaNode,
    QuotaTree,
    RankReport,
    RankState,
)

MINUTE, HOUR = 60_000, 3_600_000
FIT = {1: 50, 2: 12, 4: 15, 8: 15, 16: 4.5, 32: 2.5, 64: 1}
FULL = {1: 35, 2: 10, 4: 15, 8: 22, 16: 9, 32: 6, 64: 3}
GANGS = {16: 50, 32: 30, 64: 20}
TYPES = {"H100": 70, "A100": 20, "L40S": 10}
TEAMS = ("ads", "search", "feed", "vision", "speech", "language")
POLICY = Policy(reason_every_ms=0)


def fleet(scale: int = 1) -> Snapshot:
    """``scale`` times the design's fleet: 32 racks of 39 or 40 hosts, each of one type, in two zones."""
    snapshot = Snapshot()
    kinds = ["H100"] * 11 + ["A100"] * 3 + ["L40S"] * 2
    for rack in range(32 * scale):
        hosts = 40 if rack % 16 in (0, 15) else 39
        for host in range(1, hosts + 1):
            name = f"r{rack}-h{host}"
            zone = f"az{rack % 32 // 16 + 1}"
            snapshot.set_node_intent(name, NodeIntent(name, zone, f"r{rack}", kinds[rack % 16]))
            snapshot.set_node_report(name, NodeReport("boot"))
            snapshot.set_node_alive(name, True)
    shares = [QuotaNode("research"), QuotaNode("production")]
    shares += [QuotaNode(team, "production" if at < 3 else "research") for at, team in enumerate(TEAMS)]
    snapshot.set_quota(QuotaTree(tuple(shares)))
    return snapshot


def jobs(mix: Mapping[int, float], count: int, seed: int = 7, start: int = 0, priority: int = 2) -> list[JobSpec]:
    draw = random.Random(seed)
    sizes = draw.choices(list(mix), list(mix.values()), k=count)
    types = draw.choices(list(TYPES), list(TYPES.values()), k=count)
    saves = CheckpointSpec(30 * MINUTE, 20_000)
    return [
        JobSpec(
            id=f"j{start + at:06}",
            team=draw.choice(TEAMS),
            gpus=sizes[at],
            gpu_type=types[at],
            priority=priority,
            max_runtime_ms=draw.choice((1, 4, 4, 12, 24)) * HOUR,
            submitted_ms=start + at,
            checkpoint=saves,
        )
        for at in range(count)
    ]


def submit(snapshot: Snapshot, specs: list[JobSpec]) -> None:
    for spec in specs:
        snapshot.set_job_intent(spec.id, JobIntent(spec))


def apply(snapshot: Snapshot, made: Plan) -> None:
    for change in made.changes:
        if isinstance(change, JobChange):
            snapshot.set_job_decision(change.job, change.decision)
        elif isinstance(change, NodeChange):
            snapshot.set_node_decision(change.node, change.decision)
        else:
            snapshot.set_reservations(change.reservations)


def report(snapshot: Snapshot, state: RankState) -> None:
    """Every node reports the ranks that were bound to it as being in ``state``."""
    for name, node in list(snapshot.nodes.items()):
        gangs = []
        for job in node.jobs:
            decision = snapshot.jobs[job].decision
            first = 0
            for part in decision.allocation:
                if part.node == name:
                    ranks = tuple(RankReport(first + at, state) for at in range(len(part.gpus)))
                    gangs.append(GangReport(job, decision.attempt, ranks))
                first += len(part.gpus)
        snapshot.set_node_report(name, NodeReport("boot", tuple(gangs)))


def settle(snapshot: Snapshot, now_ms: int, policy: Policy = POLICY) -> None:
    """Plan and apply, tick by tick, until nothing more is decided."""
    for tick in range(100):
        made = plan(snapshot, policy, now_ms + tick, 1)
        if not made.changes and (made.wake_ms is None or made.wake_ms > now_ms + 100):
            return
        apply(snapshot, made)
        if any(isinstance(c, JobChange) and c.decision.phase is Phase.STARTING for c in made.changes):
            report(snapshot, RankState.READY)
    raise AssertionError("the planner does not come to rest")


def timed(work: Callable[[], object]) -> tuple[float, object]:
    start = process_time()
    answer = work()
    return process_time() - start, answer


def bound(made: Plan) -> int:
    return sum(1 for c in made.changes if isinstance(c, JobChange) and c.decision.phase is Phase.STARTING)


def fit() -> Iterator[Figure]:
    snapshot = fleet()
    submit(snapshot, jobs(FIT, 2000))
    seconds, made = timed(lambda: plan(snapshot, POLICY, 10_000, 1))
    assert isinstance(made, Plan)
    count = bound(made)
    yield Figure(f"placements, {count} of 2,000 queued jobs fit", seconds / count * 1e6, "µs each", 50)


def _full(scale: int, running: int, waiting: int) -> Snapshot:
    snapshot = fleet(scale)
    submit(snapshot, jobs(FULL, running))
    settle(snapshot, 10_000)
    submit(snapshot, jobs(FULL, waiting, seed=8, start=running))
    return snapshot


def full() -> Iterator[Figure]:
    snapshot = _full(1, 1500, 5000)
    snapshot.work.gain_all()
    seconds, made = timed(lambda: plan(snapshot, POLICY, 20_000, 1))
    assert isinstance(made, Plan)
    yield Figure(f"full plan, {len(snapshot.waiting.groups)} groups of 5,000 waiting", seconds * 1000, "ms", 100)
    settle(snapshot, 20_000)
    seconds, _ = timed(lambda: plan(snapshot, POLICY, 30_000, 1))
    yield Figure("tick with nothing to do", seconds * 1000, "ms", 5)
    spec = jobs({1: 1}, 1, start=900_000)[0]
    submit(snapshot, [spec])
    seconds, _ = timed(lambda: plan(snapshot, POLICY, 31_000, 1))
    yield Figure("tick with one job more", seconds * 1000, "ms")
    urgent = jobs({512: 1}, 1, start=910_000, priority=0)[0]
    urgent = JobSpec(**{**{f: getattr(urgent, f) for f in urgent.__slots__}, "gpu_type": "H100"})
    settle(snapshot, 31_000)
    submit(snapshot, [urgent])
    seconds, made = timed(lambda: plan(snapshot, POLICY, 32_000, 1))
    assert isinstance(made, Plan)
    stops = sum(1 for c in made.changes if isinstance(c, JobChange) and c.decision.phase is Phase.STOPPING)
    yield Figure(f"P0 of 512 GPUs into a full fleet, {stops} victims", seconds * 1000, "ms", 50)


def gangs() -> Iterator[Figure]:
    snapshot = fleet()
    submit(snapshot, jobs(GANGS, 2000))
    spent, now, done = 0.0, 10_000, 0
    while done < 2000:
        seconds, made = timed(partial(plan, snapshot, POLICY, now, 1))
        assert isinstance(made, Plan)
        spent += seconds
        apply(snapshot, made)
        running = [job.id for job in snapshot.jobs.values() if job.phase in (Phase.STARTING, Phase.RUNNING)]
        assert running, "gangs wait for ever"
        for name in running:
            snapshot.set_job_intent(name, None)
            snapshot.set_job_decision(name, None)
        done += len(running)
        now += 1000
    yield Figure("2,000 gangs of 16–64 GPUs drained", spent / 2000 * 1e6, "µs each", 1000)


def large() -> Iterator[Figure]:
    snapshot = _full(10, 15_000, 50_000)
    snapshot.work.gain_all()
    seconds, _ = timed(lambda: plan(snapshot, POLICY, 20_000, 1))
    yield Figure("12,500 hosts, 50,000 waiting: full plan", seconds * 1000, "ms", 1500)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield Figure("memory with it", peak, "GB", 1.5)


BENCHES = {"fit": fit, "full": full, "gangs": gangs, "large": large}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which of them; all if none is named")
    options = parser.parse_args()
    figures = [figure for name in options.names or BENCHES for figure in BENCHES[name]()]
    show("decision core", figures, options.json)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
