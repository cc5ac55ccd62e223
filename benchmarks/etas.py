"""How long a refresh of the starts of 500 waiting jobs takes on the full fleet: ``python -m benchmarks.etas``.

1,250 hosts are full of jobs and 500 more wait; a model learned from 20,000 jobs tells how long each runs, and hours of
the past are played again. Exit status 1 if a bound is broken.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from time import process_time

from benchmarks.core import FULL, HOUR, fleet, jobs, report, settle, submit
from benchmarks.table import Figure, show
from scheduler.core.scratch import Records, records
from scheduler.core.tuning import FLEET
from scheduler.core.types import JobSpec, Phase, Policy, RankState
from scheduler.eta import foretelling
from scheduler.eta.arrivals import Arrivals, Coming
from scheduler.eta.calibration import Calibration
from scheduler.eta.past import Past, Ran, wanted_of
from scheduler.eta.rolling import HORIZON_MS, ROLLS, roll
from scheduler.eta.runtimes import train

WAITING = 500
NOW = 24 * 7 * HOUR
BOUND_S = 5.0
LEARNED = 20_000
AN_HOUR = 400
"""Jobs that come to such a fleet within an hour."""


def full() -> Records:
    """A fleet on which everything runs and ``WAITING`` jobs find no place."""
    policy = Policy(**FLEET)
    snapshot = fleet()
    submit(snapshot, [replace(spec, submitted_ms=NOW) for spec in jobs(FULL, 4000, start=0)])
    settle(snapshot, NOW, policy)
    report(snapshot, RankState.RUNNING)
    waiting = [name for name, job in snapshot.jobs.items() if job.phase is Phase.PENDING]
    for name in waiting[WAITING:]:
        snapshot.set_job_intent(name, None)
    return records(snapshot)


def came() -> list[Coming]:
    """What came within the week before; a job runs for a part of its limit that is its team's."""
    draw = random.Random(3)
    specs: list[JobSpec] = jobs(FULL, 7 * 24 * AN_HOUR, seed=5, start=10**6)
    return [
        Coming(
            replace(spec, submitted_ms=draw.randrange(NOW)),
            spec.max_runtime_ms / 1000 * draw.uniform(0.05, 0.2) * (1 + len(spec.team) % 4),
        )
        for spec in specs
    ]


def measure() -> list[Figure]:
    seen, past = full(), Past()
    known = came()
    ran = [Ran(wanted_of(one.spec), one.length_s, one.spec.submitted_ms / 1000 + one.length_s) for one in known]
    model = train(ran[:LEARNED])
    for one in ran:
        past.add(one)
    arrivals = Arrivals(known, NOW)
    begun = process_time()
    lengths = foretelling.lengths_of(seen, model, past)
    learned = process_time()
    rolled = roll(seen, Policy(**FLEET), lengths, arrivals, rolls=ROLLS, seed=1)
    gpus = foretelling.waiting(seen)
    told = foretelling.foretell(seen.now_ms, HORIZON_MS, foretelling.pooled([rolled]), gpus, Calibration(()))
    ended = process_time()
    return [
        Figure(
            f"a refresh of {len(told)} starts, of {len(seen.jobs)} jobs on 1,250 hosts", ended - begun, "s", BOUND_S
        ),
        Figure("of that the run times of all jobs", learned - begun, "s"),
    ]


def main() -> int:
    figures = measure()
    show("starts told", figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
