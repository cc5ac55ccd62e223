"""Submits the demo's jobs through the REST interface, as the teams' own accounts: ``python -m portal.demo.workload``.

It keeps no state: what runs and waits is read from the cluster, so that a restart neither doubles nor forgets work.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random, SystemRandom

import httpx

from portal.demo import mix, pace
from portal.demo.tree import ORGANISATIONS

log = logging.getLogger("workload")

LOOK_EVERY_S = 1.0
LARGEST_PART = 0.2
"""Of a type's GPUs, that one gang may ask for."""


class Away(Exception):
    """The control plane does not answer as it should; it is asked again later."""


@dataclass(slots=True)
class Workload:
    """One client for the cluster's state and all submissions. ``tokens`` are the teams' accounts."""

    client: httpx.Client
    tokens: Mapping[str, str]
    random: Random
    numbers: count[int] = field(default_factory=lambda: count(SystemRandom().randrange(10**6)))

    def turn(self, seconds: float) -> int:
        """Submit what arrives in the next ``seconds``; answers how many jobs that were.

        Raises:
            Away: the control plane does not answer.
        """
        demand = self.demand()
        stretched = pace.stretch(sum(each.total for each in demand.values()))
        submitted = 0
        for gpu_type, each in demand.items():
            for _ in range(self._poisson(pace.arrivals_per_s(each, stretched) * seconds)):
                self.submit(gpu_type, int(each.total * LARGEST_PART), stretched)
                submitted += 1
        return submitted

    def demand(self) -> dict[str, pace.Demand]:
        """GPUs by type, as any member of a team may see them."""
        types = self._ask("GET", "cluster", next(iter(self.tokens))).json()["gpus"]
        return {
            kind: pace.Demand(total=gpus["total"], used=gpus["used"], waiting=gpus["waiting"])
            for kind, gpus in types.items()
        }

    def submit(self, gpu_type: str, largest: int, stretched: float) -> None:
        team = mix.share_out(self.random, _SHARES)
        number = next(self.numbers)
        body = mix.draw(
            self.random,
            team,
            gpu_type,
            stretch=stretched,
            may_p0=_MAY_P0[team],
            largest=max(1, largest),
            number=number,
        )
        answer = self._ask("POST", "jobs", team, json=body)
        if answer.status_code >= 400:
            log.warning("refused: %s", answer.text)

    def _ask(self, method: str, path: str, team: str, json: object = None) -> httpx.Response:
        try:
            answer = self.client.request(
                method, f"/api/v1/{path}", json=json, headers={"Authorization": f"Bearer {self.tokens[team]}"}
            )
        except httpx.HTTPError as error:
            raise Away(repr(error)) from error
        if answer.status_code >= 500:
            raise Away(f"{method} {path} answers {answer.status_code}")
        return answer

    def _poisson(self, mean: float) -> int:
        """How many of a Poisson process fall into a span: the exponential gaps that fit in it."""
        events, passed = 0, self.random.expovariate(1.0)
        while passed < mean:
            events, passed = events + 1, passed + self.random.expovariate(1.0)
        return events


_SHARES = {
    team: share / 100 * weight / 100
    for share, below in ORGANISATIONS.values()
    for team, (weight, _, _) in below.items()
}
_MAY_P0 = {team: p0 for _, below in ORGANISATIONS.values() for team, (_, p0, _) in below.items()}


def run(workload: Workload) -> None:
    """Until the process is told to end."""
    while True:
        began = time.monotonic()
        try:
            workload.turn(LOOK_EVERY_S)
        except Away as error:
            log.warning("waiting for the control plane: %s", error)
        time.sleep(max(0.0, LOOK_EVERY_S - (time.monotonic() - began)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="where the control plane answers")
    parser.add_argument("--people", required=True, type=Path, help="a JSON file with a token for each team")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    with httpx.Client(base_url=chosen.url, timeout=10) as client:
        run(Workload(client, json.loads(chosen.people.read_text()), Random()))


if __name__ == "__main__":
    main()
