"""What the REST interface answers, as records: the OpenAPI document is made from them.

Points in time are in UTC, ISO 8601. GPU indices count from 0 on each node.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from nodes.telemetry import Telemetry
from scheduler.core.blast import Hit, TeamHit
from scheduler.selectors import GpuFaultSeen, HealthChange, NodeRow
from scheduler.selectors.why import Why


class Accepted(msgspec.Struct, frozen=True):
    """A job that cannot be lost any more. ``eta`` is its expected start by the limits of what runs; null while unknown,
    as it is for one that has just come: ``jobs/{id}`` tells it within seconds. ``array`` is the id of an array,
    of which this is the first job: ``jobs?array=`` lists all."""

    id: str
    name: str
    team: str
    state: str
    queue_position: int | None
    eta: datetime | None
    array: str | None


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a list, as history has recorded it. ``array`` is the id that all jobs of its array share."""

    id: str
    name: str
    team: str
    owner: str
    priority: str
    state: str
    reason: str | None
    gpu_count: int
    gpu_type: str
    topology_hint: str
    max_runtime_hours: float
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    stop_cause: str | None
    hold: bool
    cancel_requested: bool
    array: str | None


class NodeHealth(msgspec.Struct, frozen=True):
    """``telemetry`` is null where the host told no readings of late. Of ``faults`` and ``changes`` the newest are told,
    the newest first."""

    name: str
    telemetry: Telemetry | None
    faults: list[GpuFaultSeen]
    changes: list[HealthChange]


class Placement(msgspec.Struct, frozen=True):
    """The part of a gang on one node, in the order of ranks.

    ``unready`` is null but while the gang starts and this node is what it waits for: then it is what is in the way
    there, empty where the node has not said.
    """

    node: str
    rack: str | None
    az: str | None
    gpus: list[int]
    unready: str | None = None


class JobDetail(JobSummary, frozen=True, kw_only=True):
    """One job, as the live state has it while it lives: ahead of lists by as long as recording takes.

    ``live`` is false for a job that has ended, or that has not reached the scheduler yet. ``eta`` is its expected start
    by the limits of what runs; ``eta_p50`` and ``eta_p90`` are by learned run times (see ``jobs/{id}/eta``).
    """

    live: bool
    spec: dict[str, Any]
    allocation: list[Placement]
    queue_position: int | None
    eta: datetime | None
    eta_p50: datetime | None
    eta_p90: datetime | None
    restarts: int | None
    stops: int | None
    deadline_at: datetime | None
    saved_work_seconds: float | None
    lost_work_seconds: float | None


class JobPage(msgspec.Struct, frozen=True):
    items: list[JobSummary]
    next_cursor: str | None


class JobEvent(msgspec.Struct, frozen=True):
    """One thing that happened to a job, oldest first in lists."""

    kind: str
    at: datetime
    attempt: int
    node: str | None
    detail: dict[str, Any]


class EventPage(msgspec.Struct, frozen=True):
    items: list[JobEvent]
    next_cursor: str | None


class Token(msgspec.Struct, frozen=True):
    """A bearer token of one's own; the token itself is told once, when it is made."""

    id: str
    created_at: datetime
    expires_at: datetime | None


class NewToken(msgspec.Struct, frozen=True):
    id: str
    token: str
    created_at: datetime
    expires_at: datetime | None


class TokenList(msgspec.Struct, frozen=True):
    items: list[Token]


class QuotaRow(msgspec.Struct, frozen=True):
    """One node of the quota tree; ``share`` is a decimal number as text. A type that ``ceiling`` lacks has none."""

    name: str
    parent: str | None
    share: str
    floor: dict[str, int]
    ceiling: dict[str, int]
    min_runtime_s: int
    p0_allowed: bool
    reclaim: str
    class_caps: dict[str, int]


class JobWhy(msgspec.Struct, frozen=True):
    """Why a job waits; ``explanation`` is null for one that doesn't, or that has not reached the scheduler yet."""

    id: str
    state: str
    explanation: Why | None


class NodePage(msgspec.Struct, frozen=True):
    """``counts`` are the nodes listed, by state."""

    counts: dict[str, int]
    items: list[NodeRow]


class BlastRadius(msgspec.Struct, frozen=True):
    """Whom an act stops, and what of it is known before: ``words`` says it in a line.

    ``gpus`` counts the whole gangs, ``without_checkpoint`` the jobs that lose work (``lost_gpu_hours``),
    ``fits_elsewhere`` those that would be placed again at once, ``stays`` those there that are not stopped;
    ``idle_gpus`` are free and closed by it. Each of ``hits`` is one gang.
    """

    name: str
    dry_run: bool
    words: str
    hosts: int
    idle_gpus: int
    jobs: int
    gpus: int
    stays: int
    fits_elsewhere: int
    without_checkpoint: int
    lost_gpu_hours: float
    teams: list[TeamHit]
    hits: list[Hit]


class NodeWish(msgspec.Struct, frozen=True):
    """What is wanted of a node now: the reasons for its cordon and its drain, null where there is none.

    ``radius`` is null where nobody is stopped, and while the live state cannot be read.
    """

    name: str
    cordon: str | None
    drain: str | None
    dry_run: bool
    radius: BlastRadius | None


class MaintenanceWindow(msgspec.Struct, frozen=True):
    """A span of time in which hosts run nothing. ``id`` is null in a dry run."""

    id: int | None
    place: str
    nodes: list[str]
    start: datetime
    end: datetime
    reason: str
    by: str
    cancelled_at: datetime | None
    radius: BlastRadius | None = None


class MaintenancePage(msgspec.Struct, frozen=True):
    items: list[MaintenanceWindow]
    next_cursor: str | None


class ReservationRow(msgspec.Struct, frozen=True):
    """GPUs kept for a team. ``free_by_then`` is how many of them plans have free at the start; null if not known.

    ``id`` is null in a dry run.
    """

    id: str | None
    name: str
    team: str
    gpus: int
    gpu_type: str
    start: datetime
    end: datetime
    reason: str
    by: str
    cancelled_at: datetime | None
    free_by_then: int | None


class ReservationPage(msgspec.Struct, frozen=True):
    items: list[ReservationRow]
    next_cursor: str | None


class ActRow(msgspec.Struct, frozen=True):
    """One line of the audit: who did what to what, why, and what was known of its effect right before."""

    id: int
    at: datetime
    by: str
    act: str
    target: str
    nodes: list[str]
    job: str | None
    reason: str
    radius: dict[str, Any] | None
    detail: dict[str, Any]


class ActPage(msgspec.Struct, frozen=True):
    items: list[ActRow]
    next_cursor: str | None
