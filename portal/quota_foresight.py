"""What a drafted quota tree would do: told at once as far as a moment goes, and then by a worker that takes its time.

The worker runs the planner for as long as it needs, tenths of a second or minutes; Redis holds what it was asked and
how far it is. One person has one draft looked at: a newer one ends the older. Nothing depends on it: without Redis or a
worker one is told what the moment allows, and that there is no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from time import monotonic, thread_time
from typing import Any

import redis
import structlog
from celery import current_app
from kombu.exceptions import OperationalError

from portal.accounts.permissions import Standing
from quotas import selectors
from scheduler import clock, connections
from scheduler.core import quota_preview
from scheduler.core.quota_preview import QuotaPreview, Shift, Stopped
from scheduler.core.scratch import Records, records
from scheduler.core.types import QuotaTree
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.store import codec
from scheduler.store.base import StoreUnavailable

log = structlog.get_logger(__name__)

QUICK_S, QUICK_JOBS = 0.3, 400
"""CPU seconds that the planner may take of a web process, and the jobs beyond which it is not even begun there."""
LONG_S = 240.0
"""CPU seconds that a worker may take."""
LOADED_WITHIN_S = 60.0
TOLD_EVERY_S = 0.25
SILENT_MS = {"waiting": 300_000, "running": 30_000}
"""Work of which nothing was heard for so long is lost: nobody took it up, or its worker died. A plan takes seconds."""
KEPT_S = 900
FRESH_MS = 30_000
"""What was worked out within this time is what the same draft is answered."""

WAITING, RUNNING, DONE, REPLACED, FAILED = "waiting", "running", "done", "replaced", "failed"
_TASK = "portal.tasks.preview_quota"


@dataclass(frozen=True, slots=True)
class Foreseen:
    """``found`` as far as it is known. ``ticket`` names the work that goes on; None where there is none."""

    found: QuotaPreview
    ticket: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How far the work is: its state, the part done from 0 to 1, and what was found once it is done."""

    state: str
    share: float = 0.0
    found: QuotaPreview | None = None


def foresee(standing: Standing, drafted: QuotaTree) -> Foreseen:
    """What the tree would do, with the jobs of other teams' members left nameless.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    known = _known(standing, drafted)
    if known is not None:
        return Foreseen(_redacted(known, standing.team_names))
    seen, ends = _seen(), thread_time() + QUICK_S
    large = len(seen.jobs) > QUICK_JOBS
    found = _compare(seen, drafted, lambda done: large or thread_time() > ends)
    ticket = None if found.whole else _ask(standing, drafted)
    return Foreseen(_redacted(found, standing.team_names), ticket)


def look(standing: Standing, ticket: str) -> Look | None:
    """How far the person's work of this name is; None where there is none (any more)."""
    try:
        held = _read(ticket)
        if held is None or held.get("user") != str(standing.user_id):
            return None
        state = held.get("state", WAITING)
        if clock.now_ms() - int(held.get("heard_ms", 0)) > SILENT_MS.get(state, KEPT_S * 1000):
            state = FAILED
        found = _result(ticket) if state == DONE else None
        if state == DONE and found is None:
            return None
    except redis.RedisError as error:
        log.warning("no quota preview can be read", error=str(error))
        return None
    return Look(state, float(held.get("share", 0)), None if found is None else _redacted(found, standing.team_names))


def work(ticket: str) -> None:
    """In the worker: follow both trees to the end, unless the person's next draft comes first.

    Raises:
        redis.RedisError: Redis is away, and with it whoever waits.
    """
    held, tree = _read(ticket), connections.cache().get(_key(ticket, "tree"))
    if held is None or tree is None:
        return
    drafted = codec.decode(QuotaTree, tree)  # type: ignore[arg-type]
    reins = _Reins(ticket, held["user"])
    picture().wait_for(1, LOADED_WITHIN_S)  # a worker's first question comes before it has loaded anything
    try:
        found = _compare(_seen(), drafted, reins)
    except StoreUnavailable:
        _tell(ticket, state=FAILED)
        return
    if reins.replaced:
        _tell(ticket, state=REPLACED)
        return
    connections.cache().set(_key(ticket, "found"), codec.encode(found), ex=KEPT_S)
    _tell(ticket, state=DONE, share=1)


class _Reins:
    """Asked by the planner before each plan whether to stop; tells how far it is, now and then."""

    def __init__(self, ticket: str, user: str) -> None:
        self._ticket, self._user = ticket, user
        self._ends, self._next = thread_time() + LONG_S, 0.0
        self.replaced = False

    def __call__(self, done: Fraction) -> bool:
        if monotonic() >= self._next:
            self._next = monotonic() + TOLD_EVERY_S
            latest = connections.cache().get(_latest(self._user))
            self.replaced = latest is not None and latest != self._ticket.encode()
            _tell(self._ticket, state=RUNNING, share=round(float(done), 3))
        return self.replaced or thread_time() > self._ends


def _seen() -> Records:
    """The picture may lag behind what PostgreSQL has in force, and the difference asked for is the drafted one."""
    with picture().reading() as snapshot:
        seen = records(snapshot)
    return replace(seen, quota=selectors.tree())


def _compare(seen: Records, drafted: QuotaTree, enough: Callable[[Fraction], bool]) -> QuotaPreview:
    return quota_preview.preview(seen, drafted, live_policy(), clock.now_ms(), enough)


# --- what Redis holds ---------------------------------------------------------------------------------------------


def _key(ticket: str, part: str = "state") -> str:
    return f"gangway:quota-preview:{ticket}:{part}"


def _latest(user: str) -> str:
    return f"gangway:quota-preview-of:{user}"


def _ticket(standing: Standing, drafted: QuotaTree) -> str:
    """The same for the same draft of the same person on the same tree."""
    asked = codec.encode(replace(drafted, version=selectors.version()))
    return blake2b(asked, key=str(standing.user_id).encode(), digest_size=12).hexdigest()


def _ask(standing: Standing, drafted: QuotaTree) -> str | None:
    """Have a worker look at it, unless one does already; None where nobody can be asked."""
    ticket, user = _ticket(standing, drafted), str(standing.user_id)
    try:
        connections.cache().set(_latest(user), ticket, ex=KEPT_S)
        under_way = look(standing, ticket)
        if under_way is not None and under_way.state in (WAITING, RUNNING):
            return ticket
        connections.cache().set(_key(ticket, "tree"), codec.encode(drafted), ex=KEPT_S)
        connections.cache().delete(_key(ticket), _key(ticket, "found"))
        _tell(ticket, state=WAITING, share=0, user=user)
        current_app.send_task(_TASK, args=[ticket], expires=SILENT_MS[WAITING] / 1000, retry=False)
    except (redis.RedisError, OperationalError, OSError) as error:
        log.warning("nobody can be asked for a quota preview", error=str(error))
        return None
    return ticket


def _known(standing: Standing, drafted: QuotaTree) -> QuotaPreview | None:
    """What a worker has found of this very draft a moment ago."""
    ticket = _ticket(standing, drafted)
    try:
        held = _read(ticket)
        if held is None or held.get("state") != DONE or clock.now_ms() - int(held["heard_ms"]) > FRESH_MS:
            return None
        return _result(ticket)
    except redis.RedisError as error:
        log.warning("no quota preview can be read", error=str(error))
        return None


def _read(ticket: str) -> dict[str, str] | None:
    held: dict[bytes, bytes] = connections.cache().hgetall(_key(ticket))  # type: ignore[assignment]
    return {name.decode(): value.decode() for name, value in held.items()} or None


def _result(ticket: str) -> QuotaPreview | None:
    raw = connections.cache().get(_key(ticket, "found"))
    return None if raw is None else codec.decode(QuotaPreview, raw)  # type: ignore[arg-type]


def _tell(ticket: str, **fields: Any) -> None:
    cache = connections.cache()
    cache.hset(_key(ticket), mapping=fields | {"heard_ms": clock.now_ms()})  # type: ignore[arg-type]
    cache.expire(_key(ticket), KEPT_S)


# --- what whom may see --------------------------------------------------------------------------------------------


def _redacted(found: QuotaPreview, teams: Collection[str] | None) -> QuotaPreview:
    if teams is None:
        return found

    def stops(kind: tuple[Stopped, ...]) -> tuple[Stopped, ...]:
        return tuple(
            replace(
                one,
                job=one.job if one.team in teams else "",
                for_job=one.for_job if one.for_team in teams else None,
            )
            for one in kind
        )

    def shifts(kind: tuple[Shift, ...]) -> tuple[Shift, ...]:
        return tuple(replace(one, job=one.job if one.team in teams else "") for one in kind)

    return replace(
        found,
        stopped=stops(found.stopped),
        spared=stops(found.spared),
        later=shifts(found.later),
        earlier=shifts(found.earlier),
        barred=tuple(replace(one, job=one.job if one.team in teams else "") for one in found.barred),
    )
