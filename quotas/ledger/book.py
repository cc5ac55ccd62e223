"""Who is charged for which GPUs of which moment: the rule of the ledger. Pure; docs/design/012-ledger.md tells it.

The gangs of a team on one GPU type stand in a line, in the order in which they were bound. As many of their GPUs as the
team's floor has, from the head of the line, are floor, all others burst. What of it was not work is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

DAY_MS = 86_400_000


class Stage(StrEnum):
    """What a gang does with the GPUs that it holds."""

    BARRIER = "barrier"
    WORK = "work"
    STOP = "stop"


class Kind(StrEnum):
    """Why a line of the ledger is there: GPUs were held, or earlier lines turn out to have been for nothing."""

    HELD = "held"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class Source:
    """The event that a line is written for: it names the line, so that none is written twice."""

    entry: str
    position: int


@dataclass(frozen=True, slots=True)
class Account:
    """Who pays for a job. ``saves``: whether its work stands still while a stop's checkpoint is taken."""

    job: str
    team: str
    user: str
    saves: bool


@dataclass(slots=True)
class Holding:
    """A gang that holds GPUs. ``floor`` of them are in its team's floor since ``since_ms`` (or since its bind).

    ``place`` orders the line; ``counted``: a line tells of the job already. ``asked_ms``: when its stop was asked.
    """

    account: Account
    attempt: int
    path: tuple[str, ...]
    gpu_type: str
    gpus: int
    place: int
    since_ms: int
    stage: Stage = Stage.BARRIER
    floor: int = 0
    counted: bool = False
    asked_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """A line: so many GPUs from ``starts_ms`` to ``ends_ms``, within one day of UTC. ``path`` runs from the root to the
    team as the tree was then. ``jobs`` is 1 in the first line of a job."""

    source: Source
    kind: Kind
    account: Account
    attempt: int
    path: tuple[str, ...]
    gpu_type: str
    starts_ms: int
    ends_ms: int
    floor: int
    burst: int
    lost: int
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What the ledger needs of a quota tree: each team's floors by GPU type, and its path from the root."""

    floors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def floor(self, team: str, gpu_type: str) -> int:
        return self.floors.get(team, {}).get(gpu_type, 0)

    def path(self, team: str) -> tuple[str, ...]:
        return self.paths.get(team, (team,))


class Book:
    """Takes events in their order and writes ``charges``. ``held`` are the gangs that hold GPUs, by job.

    Args:
        past: answers the lines of a job that were written before this book was opened, in their order.
        place: above the place of every gang in ``held``.
    """

    def __init__(
        self,
        guarantees: Guarantees,
        held: Iterable[Holding] = (),
        past: Callable[[str], Iterable[Charge]] = lambda job: (),
        place: int = 0,
    ) -> None:
        self.held = {one.account.job: one for one in sorted(held, key=lambda one: one.place)}
        self.charges: list[Charge] = []
        self._guarantees = guarantees
        self._past = past
        self._place = place
        self._lines: dict[tuple[str, str], dict[str, Holding]] = {}
        for gang in self.held.values():
            self._join(gang)

    def bind(self, by: Source, at_ms: int, account: Account, attempt: int, gpu_type: str, gpus: int) -> None:
        """A gang gets GPUs. One that was never told to have given its last ones back does so now."""
        if account.job in self.held:
            self.release(by, at_ms, account.job, self.held[account.job].attempt, 0)
        self._place += 1
        path = self._guarantees.path(account.team)
        gang = Holding(account, attempt, path, gpu_type, gpus, self._place, at_ms, counted=attempt != 1)
        self.held[account.job] = gang
        self._join(gang)
        self._line_up(by, at_ms, account.team, gpu_type)

    def start(self, by: Source, at_ms: int, job: str, attempt: int) -> None:
        """The barrier opens."""
        gang = self._gang(job, attempt)
        if gang is not None and gang.stage is Stage.BARRIER:
            self._close(by, gang, at_ms)
            gang.stage = Stage.WORK

    def stop(self, by: Source, at_ms: int, job: str, attempt: int) -> None:
        """A stop is asked of it; asked again, the first time counts."""
        gang = self._gang(job, attempt)
        if gang is not None and gang.stage is not Stage.STOP:
            self._close(by, gang, at_ms)
            gang.stage, gang.asked_ms = Stage.STOP, gang.since_ms

    def release(self, by: Source, at_ms: int, job: str, attempt: int, lost_ms: int) -> None:
        """Its GPUs are free, and the last ``lost_ms`` of the job's work, of this attempt or earlier ones, are gone."""
        gang = self._gang(job, attempt)
        if gang is None:
            return
        self._close(by, gang, at_ms)
        if gang.asked_ms is not None and not gang.account.saves:
            # Work that went on while the stop was under way is lost already.
            lost_ms -= gang.since_ms - gang.asked_ms
        if lost_ms > 0:
            self._lose(by, job, lost_ms)
        del self.held[job]
        del self._lines[gang.account.team, gang.gpu_type][job]
        self._line_up(by, at_ms, gang.account.team, gang.gpu_type)

    def replant(self, by: Source, at_ms: int, guarantees: Guarantees) -> None:
        """Another quota tree is in force: what is held is charged by it from now on."""
        self._guarantees = guarantees
        for gang in self.held.values():
            path = guarantees.path(gang.account.team)
            if path != gang.path:
                self._close(by, gang, at_ms)
                gang.path = path
        for team, gpu_type in self._lines:
            self._line_up(by, at_ms, team, gpu_type)

    def _gang(self, job: str, attempt: int) -> Holding | None:
        gang = self.held.get(job)
        return gang if gang is not None and gang.attempt == attempt else None

    def _join(self, gang: Holding) -> None:
        self._lines.setdefault((gang.account.team, gang.gpu_type), {})[gang.account.job] = gang

    def _line_up(self, by: Source, at_ms: int, team: str, gpu_type: str) -> None:
        left = self._guarantees.floor(team, gpu_type)
        for gang in self._lines.get((team, gpu_type), {}).values():
            floor = min(gang.gpus, left)
            left -= floor
            if floor != gang.floor:
                if gang.stage is Stage.WORK:
                    self._close(by, gang, at_ms)
                gang.floor = floor

    def _close(self, by: Source, gang: Holding, at_ms: int) -> None:
        """Charge what was held since the last line. Clocks of two leaders may differ: no time is charged twice."""
        worked = gang.stage is Stage.WORK
        floor = gang.floor if worked else 0
        burst = gang.gpus - gang.floor if worked else 0
        for starts_ms, ends_ms in days(gang.since_ms, at_ms):
            self.charges.append(
                Charge(
                    by,
                    Kind.HELD,
                    gang.account,
                    gang.attempt,
                    gang.path,
                    gang.gpu_type,
                    starts_ms,
                    ends_ms,
                    floor,
                    burst,
                    0 if worked else gang.gpus,
                    int(not gang.counted),
                )
            )
            gang.counted = True
        gang.since_ms = max(gang.since_ms, at_ms)

    def _lose(self, by: Source, job: str, lost_ms: int) -> None:
        """Move the newest work of the job that still stands from floor and burst to lost."""
        written = [*self._past(job), *(one for one in self.charges if one.account.job == job)]
        for work in reversed(standing(written)):
            taken_ms = min(lost_ms, work.ends_ms - work.starts_ms)
            self.charges.append(
                replace(
                    work,
                    source=by,
                    kind=Kind.LOSS,
                    starts_ms=work.ends_ms - taken_ms,
                    floor=-work.floor,
                    burst=-work.burst,
                    lost=work.floor + work.burst,
                    jobs=0,
                )
            )
            lost_ms -= taken_ms
            if not lost_ms:
                return


def standing(written: Iterable[Charge]) -> list[Charge]:
    """The work of one job that no loss has taken back, oldest first. A loss always takes the newest."""
    found: list[Charge] = []
    for line in written:
        if line.kind is Kind.HELD and not line.lost:
            found.append(line)
        while line.kind is Kind.LOSS and found and found[-1].ends_ms > line.starts_ms:
            work = found.pop()
            if work.starts_ms < line.starts_ms:
                found.append(replace(work, ends_ms=line.starts_ms))
    return found


def days(starts_ms: int, ends_ms: int) -> Iterator[tuple[int, int]]:
    """A span, cut at each midnight of UTC."""
    while starts_ms < ends_ms:
        midnight = (starts_ms // DAY_MS + 1) * DAY_MS
        yield starts_ms, min(midnight, ends_ms)
        starts_ms = midnight
