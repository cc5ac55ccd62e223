"""Small full fleets by seed: hosts, teams, jobs that run on them since some while, and one job that finds no room.

Everything that an exact solver has to know is here in plain figures, worked out without the decision core.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.core.types import (
    CheckpointSpec,
    Hint,
    JobDecision,
    JobIntent,
    JobSpec,
    NodeIntent,
    OnLoss,
    Phase,
    QuotaNode,
    Slice,
)
from tests.builders import HOUR, MINUTE, SECOND, Cluster, spec, team

NOW_MS = 24 * HOUR
RESTART_S = 60
"""What a restart costs beside the work that is lost."""


@dataclass(frozen=True)
class Ran:
    """A job that runs. ``on`` maps its hosts to how many GPUs of each it holds."""

    spec: JobSpec
    on: dict[str, int]
    started_ms: int
    saved_ms: int

    @property
    def lost_s(self) -> int:
        """The work, in seconds, that a stop now would throw away."""
        since = self.started_ms
        if self.spec.checkpoint is not None:
            since = max(since, self.saved_ms)
        return (NOW_MS - since) // SECOND


@dataclass
class Fleet:
    """``asker`` waits; ``policy`` are the settings that it is decided by."""

    hosts: list[NodeIntent]
    teams: list[QuotaNode]
    jobs: list[Ran]
    asker: JobSpec
    policy: dict[str, Any] = field(default_factory=dict)

    def free(self) -> dict[str, int]:
        """Free GPUs by host."""
        left = {host.name: host.gpus for host in self.hosts}
        for job in self.jobs:
            for name, gpus in job.on.items():
                left[name] -= gpus
        return left

    def most_free(self) -> int:
        """The free GPUs of the zone that has most."""
        free, zones = self.free(), dict.fromkeys((host.az for host in self.hosts), 0)
        for host in self.hosts:
            zones[host.az] += free[host.name]
        return max(zones.values())

    def cluster(self) -> Cluster:
        """The same fleet as the decision core knows it, at ``NOW_MS``, with the asker waiting."""
        cluster = Cluster(quota=self.teams, **self.policy)
        cluster.now_ms = NOW_MS
        used = {host.name: 0 for host in self.hosts}
        for host in self.hosts:
            cluster.node(host)
        for job in self.jobs:
            slices = []
            for name, gpus in job.on.items():
                slices.append(Slice(name, tuple(range(used[name], used[name] + gpus))))
                used[name] += gpus
            cluster.snapshot.set_job_intent(job.spec.id, JobIntent(job.spec))
            cluster.snapshot.set_job_decision(job.spec.id, _running(job, tuple(slices)))
        cluster.obey()
        cluster.snapshot.tell_time(NOW_MS)
        cluster.snapshot.fade(cluster.policy.half_life_ms)
        cluster.snapshot.set_job_intent(self.asker.id, JobIntent(self.asker))
        return cluster


def _running(job: Ran, slices: tuple[Slice, ...]) -> JobDecision:
    return JobDecision(
        phase=Phase.RUNNING,
        attempt=1,
        fence=1,
        allocation=slices,
        gpu_type=job.spec.gpu_type,
        bound_ms=job.started_ms,
        started_ms=job.started_ms,
        first_started_ms=job.started_ms,
        saved_at_ms=job.saved_ms,
    )


class Maker:
    """Makes one fleet of at most twelve hosts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        size = self.rng.choice([4, 8, 8])
        self.size = size
        self.hosts = []
        zones = self.rng.choice([1, 1, 2])
        for zone in range(1, zones + 1):
            for rack in range(1, self.rng.choice([1, 2, 3]) + 1):
                for at in range(1, self.rng.randint(1, 12 // zones // 3) + 1):
                    self.hosts.append(NodeIntent(f"z{zone}r{rack}-{at}", f"az{zone}", f"z{zone}r{rack}", "H100", size))

    def jobs(self, teams: list[str], classes: list[int], full: float) -> list[Ran]:
        """Fill the hosts by gangs of whole hosts of one zone and jobs of less; ``full`` is how much of them."""
        left = {host.name: self.size for host in self.hosts}
        found: list[Ran] = []
        for zone in sorted({host.az for host in self.hosts}):
            members = [host.name for host in self.hosts if host.az == zone]
            while len(members) > 1 and self.rng.random() < 0.5:
                width = self.rng.randint(2, min(4, len(members)))
                chosen = self.rng.sample(members, width)
                members = [name for name in members if name not in chosen]
                on = {name: left.pop(name) for name in chosen}
                found.append(self.ran(f"gang{len(found)}", teams, classes, on))
        for name in list(left):
            while left[name] and self.rng.random() < full:
                gpus = self.rng.randint(1, left[name])
                left[name] -= gpus
                found.append(self.ran(f"job{len(found)}", teams, classes, {name: gpus}))
        return found

    def ran(self, name: str, teams: list[str], classes: list[int], on: dict[str, int]) -> Ran:
        rng = self.rng
        started = NOW_MS - rng.choice([120, 600, 1800, 3600, 7200]) * SECOND - rng.randint(0, 300) * SECOND
        saved = rng.randint(started // SECOND, NOW_MS // SECOND) * SECOND
        saves = CheckpointSpec(30 * MINUTE, 20 * SECOND) if rng.random() < 0.8 else None
        job = spec(
            name,
            sum(on.values()),
            team=rng.choice(teams),
            priority=rng.choice(classes),
            max_runtime_ms=100 * HOUR,
            checkpoint=saves,
            hint=Hint.ANY,
            cpu_per_rank=rng.choice([0, 0, 4]),
        )
        return Ran(job, on, started, saved if saves is not None else 0)

    def asker(self, name: str, most: int, **wishes: Any) -> JobSpec:
        """A gang of at most ``most`` GPUs, of whole hosts more often than not."""
        rng, size = self.rng, self.size
        whole = rng.randint(1, max(1, most // size)) * size
        gpus = max(1, min(rng.choice([whole, whole, whole + rng.randint(1, size), rng.randint(1, size)]), most))
        wishes.setdefault("hint", rng.choice(list(Hint)))
        return spec("asker", gpus, team=name, submitted_ms=NOW_MS, max_runtime_ms=HOUR, **wishes)


def contended(seed: int) -> Fleet:
    """A fleet in which one team's gang may take the place of others: by class, as P0 anywhere, or by its share."""
    maker = Maker(seed)
    rng = maker.rng
    kind = rng.choice(["class", "class", "P0", "floor", "share"])
    one_class = rng.random() < 0.5
    teams = [team("own"), team("b"), team("c")]
    most = 2 * len(maker.hosts) * maker.size // 3
    if kind == "class":
        jobs = maker.jobs(["own"] * 5 + ["b"], [3] if one_class else [1, 2, 3, 3], 0.97)
        asker = maker.asker("own", most, priority=1)
    elif kind == "P0":
        jobs = maker.jobs(["own", "b", "c"], [2] if one_class else [1, 2, 3], 0.97)
        asker = maker.asker("own", most, priority=0)
    else:
        floors = {"H100": most} if kind == "floor" else {}
        teams = [team("own", floor=floors, share=str(rng.randint(1, 6))), team("b"), team("c")]
        if rng.random() < 0.3:
            teams[1] = replace(teams[1], min_runtime_ms=10 * MINUTE)
        jobs = maker.jobs(["b", "b", "c"], [2] if one_class else [1, 2, 3], 0.97)
        asker = maker.asker("own", most if kind == "floor" else most // 2, priority=3)
    if rng.random() < 0.2:
        asker = replace(asker, cpu_per_rank=rng.choice([8, 16]))
    return Fleet(maker.hosts, teams, jobs, asker)


def broken(seed: int) -> Fleet:
    """A fleet in which enough GPUs are free for a gang, though perhaps in pieces that do not fit."""
    maker = Maker(seed)
    rng, size = maker.rng, maker.size
    classes = [2] if rng.random() < 0.7 else [1, 2, 3]
    jobs: list[Ran] = []
    for host in maker.hosts:
        held = rng.choice([0, size, *range(1, size), *range(1, size), *range(1, size // 2 + 1)])
        while held:
            gpus = rng.randint(1, held)
            held -= gpus
            hint = Hint.ANY if rng.random() < 0.2 else Hint.PREFER_SAME_RACK
            job = maker.ran(f"job{len(jobs)}", ["ml"], classes, {host.name: gpus})
            kept = OnLoss.RESTART if rng.random() < 0.1 else OnLoss.RESUME
            jobs.append(replace(job, spec=replace(job.spec, hint=hint, on_preemption=kept)))
    hints = [Hint.PREFER_SAME_RACK, Hint.PREFER_SAME_RACK, Hint.REQUIRE_SAME_RACK, Hint.REQUIRE_SAME_HOST]
    fleet = Fleet(
        maker.hosts, [team("ml")], jobs, spec("asker"), {"repair": "auto", "preemption": False, "shares": False}
    )
    asker = maker.asker("ml", max(1, fleet.most_free()), priority=2, hint=rng.choice(hints))
    return replace(fleet, asker=asker)
