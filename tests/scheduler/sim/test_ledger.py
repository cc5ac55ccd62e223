"""The ledger of a run against the allocations of its decision log: equal to the millisecond."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from quotas.ledger.book import Account, Book, Guarantees, Source
from scheduler.core.types import Event, EventKind, JobSpec
from scheduler.sim.log import Line, Log
from scheduler.sim.log_file import without_chatter
from scheduler.sim.run import run
from scheduler.sim.scenario import Scenario, load, read
from tests.scheduler.sim.storms import Storm

COLLECTION = Path(__file__).resolve().parents[4] / "shared" / "scenarios"
FILES = sorted(COLLECTION.glob("*/*.yaml"))
STORMS = range(40)


class Kept:
    """A run with its decision log and, beside it, the ledger of the same journal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[Line] = []
        self.specs: dict[str, JobSpec] = {}
        self.book = Book(Guarantees({team: {"H100": 6} for team in ("ml", "o0", "t00", "b", "a")}))
        self._told = 0
        tell, submit = Log.event, Log.submit

        def event(log: Log, event: Event) -> None:
            self._enter(event)
            tell(log, event)

        def submitted(log: Log, at_ms: int, spec: JobSpec, *more: str | None) -> None:
            self.specs[spec.id] = spec
            submit(log, at_ms, spec, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(Log, "event", event)
        monkeypatch.setattr(Log, "submit", submitted)

    def play(self, scenario: Scenario) -> None:
        with without_chatter():
            run(scenario, [self.lines.append])

    def _enter(self, event: Event) -> None:
        self._told += 1
        by, job = Source(str(self._told), 0), event.job or ""
        if event.kind is EventKind.BIND:
            spec = self.specs[job]
            account = Account(job, spec.team, "", spec.checkpoint is not None)
            gpus = sum(map(len, event.detail["gpus"].values()))
            self.book.bind(by, event.at_ms, account, event.attempt, event.detail["gpu_type"], gpus)
        elif event.kind is EventKind.START:
            self.book.start(by, event.at_ms, job, event.attempt)
        elif event.kind is EventKind.STOP:
            self.book.stop(by, event.at_ms, job, event.attempt)
        elif event.kind is EventKind.RELEASE:
            self.book.release(by, event.at_ms, job, event.attempt, event.detail["lost_ms"])

    def charged(self) -> Counter[str]:
        """GPU-milliseconds of each job whose GPUs are free."""
        found: Counter[str] = Counter()
        for line in self.book.charges:
            gpus = line.floor + line.burst + line.lost
            found[line.account.job] += gpus * (line.ends_ms - line.starts_ms)
        return found

    def allocated(self) -> Counter[str]:
        """The same out of the decision log, up to each attempt's release."""
        bound: dict[tuple[str, int], tuple[float, int]] = {}
        found: Counter[str] = Counter()
        for line in self.lines:
            if line["kind"] == "bind":
                bound[line["job"], line["attempt"]] = line["t"], sum(map(len, line["gpus"].values()))
            elif line["kind"] == "release":
                t, gpus = bound.pop((line["job"], line["attempt"]))
                found[line["job"]] += gpus * round(1000 * (line["t"] - t))
        return found

    def useful(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for line in self.book.charges:
            found[line.account.job] += (line.floor + line.burst) * (line.ends_ms - line.starts_ms)
        return found

    def check(self) -> None:
        open_now = set(self.book.held)
        charged = {job: ms for job, ms in self.charged().items() if job not in open_now and ms}
        assert charged == {job: ms for job, ms in self.allocated().items() if job not in open_now and ms}
        assert all(ms >= 0 for ms in self.useful().values())


@pytest.mark.skipif(not FILES, reason="no scenarios lie beside the repository in ../shared/scenarios")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_scenario(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.play(load(path))
    kept.check()


@pytest.mark.parametrize("seed", STORMS)
def test_a_storm(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.play(read(f"storm-{seed}.yaml", Storm(seed).scenario))
    kept.check()
