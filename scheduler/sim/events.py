"""The events of a scenario. Durations are milliseconds, and so are the times of ``at``, from the start of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodes.agent.simulated import Behaviour, Step
from scheduler.core.types import JobSpec, RankState, Window
from scheduler.sim.quota import Branch


@dataclass(frozen=True, slots=True)
class Request:
    """A job as it is asked for. ``body`` is what two requests with one idempotency key are compared by."""

    spec: JobSpec
    behaviour: Behaviour
    key: str | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Submit:
    """One job, or the elements of an array."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeDown:
    host: str


@dataclass(frozen=True, slots=True)
class NodeUp:
    """Reports again, rebooted: nothing runs on it."""

    host: str


@dataclass(frozen=True, slots=True)
class NodeBack:
    """Reports again, with the ranks that it had."""

    host: str


@dataclass(frozen=True, slots=True)
class Cordon:
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Uncordon:
    host: str


@dataclass(frozen=True, slots=True)
class Drain:
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Maintenance:
    hosts: tuple[str, ...]
    window: Window


@dataclass(frozen=True, slots=True)
class Reserve:
    name: str
    team: str
    gpus: int
    gpu_type: str
    window: Window


@dataclass(frozen=True, slots=True)
class GpuFault:
    host: str
    gpu: int


@dataclass(frozen=True, slots=True)
class GpuOk:
    host: str
    gpu: int


@dataclass(frozen=True, slots=True)
class SpotNotice:
    host: str
    notice_ms: int


@dataclass(frozen=True, slots=True)
class RankExit:
    job: str
    rank: int
    code: int


@dataclass(frozen=True, slots=True)
class Stall:
    job: str
    what: Step


@dataclass(frozen=True, slots=True)
class QuotaEdit:
    tree: Mapping[str, Branch]


@dataclass(frozen=True, slots=True)
class LeaderCrash:
    down_ms: int


@dataclass(frozen=True, slots=True)
class StoreDown:
    for_ms: int


@dataclass(frozen=True, slots=True)
class LateReport:
    job: str
    attempt: int
    rank: int
    state: RankState


Event = (
    Submit
    | Cancel
    | Hold
    | Release
    | NodeDown
    | NodeUp
    | NodeBack
    | Cordon
    | Uncordon
    | Drain
    | Maintenance
    | Reserve
    | GpuFault
    | GpuOk
    | SpotNotice
    | RankExit
    | Stall
    | QuotaEdit
    | LeaderCrash
    | StoreDown
    | LateReport
)


@dataclass(frozen=True, slots=True)
class Timed:
    at_ms: int
    event: Event
