"""What the pages show of the live state. Each answer is None while there is none: the page says so and goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from portal import mending
from scheduler import clock, selectors
from scheduler.core.moves import Proposal
from scheduler.picture import picture
from scheduler.policy import live_policy
from scheduler.selectors.shares import Shares
from scheduler.selectors.shares import shares as shares_of
from scheduler.store.base import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


def _if_there(read: Callable[P, T]) -> Callable[P, T | None]:
    """None in place of ``StoreUnavailable``: the live state was never loaded in this process."""

    @wraps(read)
    def reading(*args: P.args, **more: P.kwargs) -> T | None:
        try:
            return read(*args, **more)
        except StoreUnavailable:
            return None

    return reading


@dataclass(frozen=True, slots=True)
class Freshness:
    """``since_ms`` is when the live state was last known to be right; None while fresh, or if it never was."""

    fresh: bool
    since_ms: int | None


def freshness() -> Freshness:
    seen = picture()
    return Freshness(seen.fresh, seen.stale_since_ms)


@_if_there
def fleet() -> selectors.ClusterSummary:
    return selectors.cluster(picture(), clock.now_ms())


@_if_there
def queue(teams: Collection[str] | None, limit: int, **narrowed: Any) -> selectors.Queue:
    return selectors.queue(picture(), live_policy(), clock.now_ms(), teams=teams, limit=limit, **narrowed)


@_if_there
def nodes() -> list[selectors.NodeRow]:
    return selectors.nodes(picture(), clock.now_ms())


@_if_there
def hindrances(name: str) -> list[tuple[str, str]]:
    return selectors.hindrances(picture(), name)


@_if_there
def holds() -> list[dict[str, Any]]:
    return selectors.holds(picture(), clock.now_ms())


@_if_there
def demand() -> list[selectors.Demand]:
    return selectors.demand(picture())


@_if_there
def in_the_way() -> dict[str, list[selectors.InTheWay]]:
    return selectors.in_the_way(picture(), clock.now_ms())


@_if_there
def node(name: str) -> selectors.NodeDetail | None:
    return selectors.node(picture(), name, clock.now_ms())


@_if_there
def live_job(job_id: str) -> selectors.LiveJob | None:
    return selectors.live_job(picture(), job_id)


@_if_there
def moves() -> list[Proposal]:
    """What repair would move now; None while the live state is away."""
    return mending.proposals()


@_if_there
def why(job_id: str, now_ms: int, teams: Collection[str] | None) -> selectors.Why | None:
    return selectors.why(picture(), live_policy(), job_id, now_ms, teams)


@_if_there
def shares() -> Shares:
    return shares_of(picture())
