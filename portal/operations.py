"""What on-call does to the fleet, for the REST interface and the pages alike: the same rights, radius and audit.

Each act changes its rows, puts the intents in the outbox and writes its line of the audit in one transaction. The blast
radius is taken from the live state right before; an act is not held up where that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
import structlog
from django.db import transaction
from django.utils import timezone

from nodes.models import Maintenance
from portal.accounts.models import User
from scheduler import clock, connections, intents, mending, reservations
from scheduler.core import blast
from scheduler.core.moves import Proposal
from scheduler.core.types import HostState
from scheduler.models import Act, Job, Reservation
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """Everything that the audit knows."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    PARDON = "pardon"
    REMOVE = "remove"
    MAINTENANCE = "maintenance"
    MAINTENANCE_CANCEL = "maintenance_cancel"
    RESERVE = "reserve"
    RESERVATION_CANCEL = "reservation_cancel"
    JOB_CANCEL = "job_cancel"
    JOB_HOLD = "job_hold"
    JOB_RELEASE = "job_release"
    JOB_PRIORITY = "job_priority"
    JOB_CHANGE = "job_change"
    BUDGET = "budget"
    PRICE = "price"
    REPAIR = mending.ACT


WORDS = {
    Kind.CORDON: "Cordon",
    Kind.UNCORDON: "Uncordon",
    Kind.DRAIN: "Drain",
    Kind.PARDON: "Release from quarantine",
    Kind.REMOVE: "Remove",
    Kind.MAINTENANCE: "Maintenance",
    Kind.MAINTENANCE_CANCEL: "Cancel a maintenance",
    Kind.RESERVE: "Reservation",
    Kind.RESERVATION_CANCEL: "Cancel a reservation",
    Kind.JOB_CANCEL: "Cancel a job",
    Kind.JOB_HOLD: "Hold a job",
    Kind.JOB_RELEASE: "Release a job",
    Kind.JOB_PRIORITY: "Change a job's priority",
    Kind.JOB_CHANGE: "Change a job",
    Kind.BUDGET: "Change a budget",
    Kind.PRICE: "Change a price",
    Kind.REPAIR: "Move jobs together",
}


class StillAlive(Exception):
    """A host that still answers, or still holds jobs, is not removed: it is drained first. The text names it."""


@dataclass(frozen=True, slots=True)
class Where:
    """The hosts of an act, and what people call them together."""

    nodes: tuple[str, ...]
    words: str


def radius(kind: Kind, names: Sequence[str], from_ms: int | None = None) -> blast.Blast | None:
    """What the act would do to jobs, as things stand; None for one that harms nobody, or while nothing is known."""
    if kind not in (Kind.CORDON, Kind.DRAIN, Kind.MAINTENANCE, Kind.REMOVE):
        return None
    try:
        with picture().reading() as snapshot:
            if kind is Kind.CORDON:
                return blast.of_cordon(snapshot, names)
            return blast.of_drain(snapshot, live_policy(), names, clock.now_ms(), from_ms)
    except StoreUnavailable:
        return None


_PLAIN: dict[Kind, Callable[[Sequence[str], str, datetime], None]] = {
    Kind.CORDON: lambda names, reason, now: intents.cordon_nodes(names, reason),
    Kind.UNCORDON: lambda names, reason, now: intents.uncordon_nodes(names),
    Kind.DRAIN: lambda names, reason, now: intents.drain_nodes(names, reason),
    Kind.PARDON: lambda names, reason, now: intents.pardon_nodes(names, now),
    Kind.REMOVE: lambda names, reason, now: intents.remove_nodes(names, now),
}


def operate(user: User, kind: Kind, where: Where, reason: str) -> blast.Blast | None:
    """Cordon, uncordon, drain, pardon or remove hosts; answers the radius as it was right before.

    Raises:
        UnknownNode: one of them is not there; nothing is done.
        StillAlive: one that shall be removed is not down.
    """
    before = radius(kind, where.nodes)
    if kind is Kind.REMOVE:
        _must_be_down(where.nodes)
    now = timezone.now()
    with transaction.atomic():
        _PLAIN[kind](where.nodes, reason, now)
        _note(user, kind, where.words, reason, now, nodes=where.nodes, before=before)
    return before


def _must_be_down(names: Sequence[str]) -> None:
    with picture().reading() as snapshot:
        for name in names:
            node = snapshot.nodes.get(name)
            if node is not None and (node.state(clock.now_ms()) is not HostState.DOWN or node.alive):
                raise StillAlive(f"{name} is not down: drain it and switch it off first")


def maintain(user: User, where: Where, start: datetime, end: datetime, reason: str) -> Maintenance:
    """Plan a maintenance window. Raises UnknownNode."""
    before = radius(Kind.MAINTENANCE, where.nodes, clock.to_ms(start))
    now = timezone.now()
    with transaction.atomic():
        window = intents.plan_maintenance(where.nodes, where.words, start, end, reason, user.get_username(), now)
        span = {"maintenance": window.pk, "start": start.isoformat(), "end": end.isoformat()}
        _note(user, Kind.MAINTENANCE, where.words, reason, now, nodes=where.nodes, before=before, detail=span)
    return window


def cancel_maintenance(user: User, window_id: int, reason: str) -> Maintenance:
    """Raises Maintenance.DoesNotExist, nodes.maintenance.Over."""
    now = timezone.now()
    with transaction.atomic():
        window = intents.cancel_maintenance(window_id, now)
        names = tuple(window.nodes.order_by("name").values_list("name", flat=True))
        detail = {"maintenance": window.pk}
        _note(user, Kind.MAINTENANCE_CANCEL, window.place, reason, now, nodes=names, detail=detail)
    return window


def reservable(wish: reservations.Wish) -> int | None:
    """How many of the GPUs would be free by then as plans stand; None while nothing is known."""
    try:
        with picture().reading() as snapshot:
            return blast.reservable(snapshot, live_policy(), wish.intent("asked"), clock.now_ms())
    except StoreUnavailable:
        return None


def reserve(user: User, wish: reservations.Wish) -> Reservation:
    """Raises QuotaNode.DoesNotExist."""
    kept = reservable(wish)
    now = timezone.now()
    with transaction.atomic():
        row = reservations.reserve(wish, user.get_username(), connections.ids(), now)
        detail = {
            "reservation": row.pk,
            "gpus": wish.gpus,
            "gpu_type": wish.gpu_type,
            "team": wish.team,
            "start": wish.start.isoformat(),
            "end": wish.end.isoformat(),
            "free_by_then": kept,
        }
        _note(user, Kind.RESERVE, f"{wish.name} for {wish.team}", wish.reason, now, detail=detail)
    return row


def cancel_reservation(user: User, reservation_id: str, reason: str) -> Reservation:
    """Raises Reservation.DoesNotExist, scheduler.reservations.Over."""
    now = timezone.now()
    with transaction.atomic():
        row = reservations.cancel(reservation_id, now)
        words = f"{row.name} for {row.team.name}"
        _note(user, Kind.RESERVATION_CANCEL, words, reason, now, detail={"reservation": row.pk})
    return row


def on_job(user: User, kind: Kind, job: Job, ask: Callable[[str], Job], reason: str = "", **more: Any) -> Job:
    """Have something done to a job by ``ask``; what is somebody else's is noted in the audit, with ``more``."""
    if user.pk == job.submitted_by_id or job.owner.casefold() == user.email.casefold():
        return ask(job.pk)
    with transaction.atomic():
        asked = ask(job.pk)
        detail = {"team": job.team.name, "owner": job.owner, "gpus": job.gpus, "state": job.state, **more}
        _note(user, kind, job.name, reason, timezone.now(), job=job.pk, detail=detail)
    return asked


def agree(user: User, found: Proposal, reason: str) -> None:
    """Have the moves of a proposal made, if all still is so when the leader comes to it."""
    now = timezone.now()
    moved = "1 job" if len(found.moves) == 1 else f"{len(found.moves)} jobs"
    detail = {
        "wish": msgspec.to_builtins(mending.wish_of(found, now)),
        "price_gpu_ms": found.price_ms,
        "gain_gpu_ms": found.gain_ms,
    }
    with transaction.atomic():
        words = f"{moved} moved for {found.gpus} {found.gpu_type} GPUs"
        _note(user, Kind.REPAIR, words, reason, now, nodes=found.nodes, job=found.job, detail=detail)
        mending.enqueue(now)


def _note(
    user: User,
    kind: Kind,
    target: str,
    reason: str,
    now: datetime,
    *,
    nodes: Sequence[str] = (),
    job: str = "",
    before: blast.Blast | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    Act.objects.create(
        at=now,
        by=user,
        act=kind.value,
        target=target[:200],
        nodes=list(nodes),
        job=job,
        reason=reason,
        radius=_kept(before),
        detail=detail or {},
    )
    log.info("an act of a person", act=kind.value, target=target, by=user.get_username(), reason=reason)


def _kept(before: blast.Blast | None) -> dict[str, Any] | None:
    return None if before is None else {**asdict(before), "words": blast.words(before)}
