"""Reading what a scenario expects. What each expectation compares is ``scheduler.sim.verdict``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.core.types import HostState, Phase, Reason, StopCause
from scheduler.sim.reading import Bad, Fields, at_least, duration, one_of, one_or_list, text

REJECTED = "REJECTED"


class Subject(StrEnum):
    """What an expectation speaks of."""

    JOB = "job"
    JOBS = "jobs"
    TEAM = "team"
    HOST = "host"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of ``expect``.

    ``at_ms`` counts from the run's start; None: over the whole run. ``names`` are the jobs, or the one team or host.
    ``checks`` are the keys to compare with their values, read; ``written`` is the line as the file has it.
    """

    written: dict[str, Any]
    at_ms: int | None
    subject: Subject
    names: tuple[str, ...]
    checks: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Known:
    """The names that a file may expect something of."""

    hosts: frozenset[str]
    jobs: tuple[str, ...]
    arrays: Mapping[str, tuple[str, ...]]
    team: Callable[[Any], str]

    def host(self, value: Any) -> str:
        name = text(value)
        if name not in self.hosts:
            raise Bad(f"no host is called {name!r}")
        return name

    def one_job(self, value: Any) -> tuple[str, ...]:
        name = text(value)
        if name not in self.jobs:
            raise Bad(f"no job is called {name!r}")
        return (name,)

    def some_jobs(self, value: Any) -> tuple[str, ...]:
        """Jobs by name, by ``prefix*``, or an array as a whole; each once."""
        found: dict[str, None] = {}
        for name in one_or_list(text)(value):
            found.update(dict.fromkeys(self._matching(name)))
        return tuple(found)

    def _matching(self, name: str) -> Iterable[str]:
        if not name.endswith("*"):
            return self.arrays.get(name) or self.one_job(name)
        matching = [job for job in self.jobs if job.startswith(name[:-1])]
        if not matching:
            raise Bad(f"no job is called {name!r}")
        return matching


_count = at_least(0)
_states = one_or_list(one_of((*(phase.value for phase in Phase), REJECTED)))

_JOB: dict[str, Callable[[Any], Any]] = {
    "state": _states,
    "reason": one_or_list(one_of(reason.value for reason in Reason)),
    "gpus": _count,
    "hosts": _count,
    "racks": _count,
    "azs": _count,
    "started_by": duration,
    "not_started_before": duration,
    "ended_by": duration,
    "stops": _count,
    "restarts": _count,
    "stop_cause": one_or_list(one_of(cause.value for cause in StopCause)),
    "lost_work_at_most": duration,
    "eta_at_most": duration,
    "eta_at_least": duration,
}
_JOBS: dict[str, Callable[[Any], Any]] = {
    "running": _count,
    "running_at_most": _count,
    "running_at_least": _count,
    "all": _states,
}
_TEAM: dict[str, Callable[[Any], Any]] = {"gpus": _count, "gpus_at_most": _count, "gpus_at_least": _count}
_HOST: dict[str, Callable[[Any], Any]] = {"state": one_or_list(one_of(state.value for state in HostState))}
_CLUSTER: dict[str, Callable[[Any], Any]] = {
    "idle_gpus": _count,
    "idle_gpus_at_most": _count,
    "stops_total": _count,
    "stops_at_most": _count,
    "largest_gang": _count,
}


def read_expectations(rows: list[Fields], known: Known) -> tuple[Expectation, ...]:
    """Every line of ``expect``.

    Raises:
        NotAScenario: a key, a value or a name is unknown.
    """
    return tuple(_read(row, known) for row in rows)


def _read(row: Fields, known: Known) -> Expectation:
    at_ms = row.take("at", duration, None)
    subject, names = _subject(row, known)
    readers = {
        Subject.JOB: {**_JOB, "on": one_or_list(known.host), "not_on": one_or_list(known.host)},
        Subject.JOBS: _JOBS,
        Subject.TEAM: _TEAM,
        Subject.HOST: _HOST,
        Subject.CLUSTER: _CLUSTER,
    }[subject]
    checks = tuple((key, row.take(key, readers[key])) for key in row.keys() if key in readers)  # noqa: SIM118
    row.done()
    if not checks:
        row.refuse("expects nothing")
    return Expectation(row.written, at_ms, subject, names, checks)


def _subject(row: Fields, known: Known) -> tuple[Subject, tuple[str, ...]]:
    if "job" in row:
        return Subject.JOB, row.take("job", known.one_job)
    if "jobs" in row:
        return Subject.JOBS, row.take("jobs", known.some_jobs)
    if "team" in row:
        return Subject.TEAM, (row.take("team", known.team),)
    if "host" in row:
        return Subject.HOST, (row.take("host", known.host),)
    return Subject.CLUSTER, ()
