"""Jobs of the past, small."""

from __future__ import annotations

from random import Random

from scheduler.eta.past import Ran, Wanted

HOUR = 3600.0


def wanted(job: str = "a", **fields: object) -> Wanted:
    given: dict[str, object] = {
        "team": "vision",
        "owner": "ada",
        "family": "train-#",
        "image": "pytorch",
        "gpus": 8,
        "gpu_type": "H100",
        "priority": 2,
        "limit_s": 24 * HOUR,
        "submitted_s": 0.0,
        **fields,
    }
    return Wanted(job=job, **given)  # type: ignore[arg-type]


def ran(length_s: float, job: str = "a", ended: bool = True, **fields: object) -> Ran:
    one = wanted(job, **fields)
    return Ran(one, length_s, one.submitted_s + length_s if ended else None)


def two_people(count: int, seed: int = 1) -> list[Ran]:
    """One's jobs run for ten minutes or so, the other's for ten hours, and nothing else tells them apart."""
    random = Random(seed)
    return [
        ran(
            (600 if at % 2 else 36_000) * random.uniform(0.7, 1.4),
            f"j{at}",
            owner="ada" if at % 2 else "bob",
            submitted_s=at * 900.0,
        )
        for at in range(count)
    ]
