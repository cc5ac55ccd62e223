"""What one might ask for instead, each tried by the real planner."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from scheduler.core.admission import fits_empty
from scheduler.core.fragmentation import largest_gang
from scheduler.core.preview import Outlook, Verdict, preview
from scheduler.core.quota import Quota
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Zone
from scheduler.core.types import ANY_GPU_TYPE, Hint, JobSpec, Policy

MINUTE_MS = 60_000
SOONER_MS = MINUTE_MS
"""An alternative has to gain at least so much."""
LOOSER = {
    Hint.REQUIRE_SAME_HOST: (Hint.PREFER_SAME_HOST, Hint.ANY),
    Hint.REQUIRE_SAME_RACK: (Hint.PREFER_SAME_RACK, Hint.ANY),
    Hint.PREFER_SAME_HOST: (Hint.ANY,),
    Hint.PREFER_SAME_RACK: (Hint.ANY,),
    Hint.ANY: (),
}
SIZE_TRIES, LIMIT_TRIES = 4, 3


@dataclass(frozen=True, slots=True)
class Alternative:
    """``kind`` is the one field of ``JobSpec`` that differs in ``spec``."""

    kind: str
    spec: JobSpec
    outlook: Outlook


def alternatives(
    snapshot: Snapshot, policy: Policy, spec: JobSpec, now_ms: int, wanted: Outlook, priorities: Collection[int]
) -> Iterator[Alternative]:
    """Those that gain something over ``wanted``, as they are found: the likeliest first, so one may stop any time.

    Args:
        wanted: the outlook of ``spec`` as it is.
        priorities: the classes that its team may submit.
    """
    for kind, specs in _candidates(snapshot, spec, now_ms, wanted, priorities):
        for other in specs:
            outlook = preview(snapshot, policy, other, now_ms, brief=True)
            if gains(wanted, outlook):
                yield Alternative(kind, other, outlook)
                break


def rank(found: Collection[Alternative]) -> list[Alternative]:
    """Best first: those that start now and stop nobody, of those the fastest; then by planned start."""

    def key(one: Alternative) -> tuple[bool, bool, int, float, str]:
        outlook = one.outlook
        slowdown = outlook.place.speed.slowdown if outlook.place is not None else 1.0
        waits = outlook.verdict is not Verdict.STARTS
        return waits, bool(outlook.victims), (outlook.start_ms or 0) if waits else 0, slowdown, one.kind

    return sorted(found, key=key)


def gains(wanted: Outlook, other: Outlook) -> bool:
    """Whether the other outlook is better: possible at all, sooner, or as soon and faster or without victims."""
    if other.verdict is Verdict.REFUSED:
        return False
    if wanted.verdict is Verdict.REFUSED:
        return True
    if wanted.verdict is Verdict.STARTS:
        faster = wanted.place is not None and other.place is not None
        return faster and _slowdown(other) < _slowdown(wanted) and other.start_ms is not None
    if other.start_ms is None:
        return False
    if wanted.start_ms is None:
        return True
    return other.start_ms <= wanted.start_ms - SOONER_MS or (
        other.start_ms <= wanted.start_ms and bool(wanted.victims) and not other.victims
    )


def _slowdown(outlook: Outlook) -> float:
    return outlook.place.speed.slowdown if outlook.place is not None else 1.0


def _candidates(
    snapshot: Snapshot, spec: JobSpec, now_ms: int, wanted: Outlook, priorities: Collection[int]
) -> Iterator[tuple[str, list[JobSpec]]]:
    """Kind by kind, each with what to try until one gains."""
    if wanted.verdict is Verdict.STARTS:
        if _slowdown(wanted) > 1 and spec.hint is not Hint.REQUIRE_SAME_RACK:
            yield "hint", [replace(spec, hint=Hint.REQUIRE_SAME_RACK)]
        return
    yield "hint", [replace(spec, hint=hint) for hint in LOOSER[spec.hint]]
    yield "gpus", [replace(spec, gpus=size) for size in islice(_smaller(snapshot, spec, wanted), SIZE_TRIES)]
    if spec.gpu_type != ANY_GPU_TYPE:
        for gpu_type in sorted(snapshot.topology.by_type):
            if gpu_type != spec.gpu_type and fits_empty(snapshot, spec, gpu_type):
                yield "gpu_type", [replace(spec, gpu_type=gpu_type)]
    if wanted.verdict is Verdict.WAITS:
        yield "max_runtime_ms", [replace(spec, max_runtime_ms=limit) for limit in _shorter(snapshot, spec, now_ms)]
    higher = sorted((p for p in priorities if p < spec.priority), reverse=True)
    for priority in higher:
        yield "priority", [replace(spec, priority=priority)]
    if wanted.victims:
        yield "priority", [replace(spec, priority=p) for p in sorted(priorities) if p > spec.priority]


def _smaller(snapshot: Snapshot, spec: JobSpec, wanted: Outlook) -> Iterator[int]:
    """Sizes below the one asked for, largest first: what is free in one piece and below the ceilings, then halves."""
    leaf = snapshot.quota.leaf(spec.team)
    types = [spec.gpu_type] if spec.gpu_type != ANY_GPU_TYPE else list(snapshot.topology.by_type)
    largest = max((largest_gang(snapshot, name) for name in types), default=0)
    if wanted.verdict is Verdict.REFUSED:
        largest = max((_whole(zone) for name in types for zone in snapshot.topology.by_type.get(name, ())), default=0)
    allowed = max((_headroom(snapshot, leaf.name, name, largest, spec.priority) for name in types), default=0)
    size = _even(min(largest, allowed, spec.gpus - 1))
    while size >= 1:
        yield size
        size = _even(size * 3 // 4) if size > 8 else size // 2


def _whole(zone: Zone) -> int:
    """All GPUs that the zone has, up and free or not."""
    return sum(node.all_mask.bit_count() for rack in zone.racks() for node in rack.nodes)


def _headroom(snapshot: Snapshot, team: str, gpu_type: str, most: int, priority: int) -> int:
    leaf = snapshot.quota.leaf(team)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if Quota.barrier(leaf, gpu_type, middle, priority) is None:
            low = middle
        else:
            high = middle - 1
    return low


def _even(gpus: int) -> int:
    """Whole hosts of eight, or a power of two on one: what gangs are made of."""
    if gpus >= 8:
        return gpus // 8 * 8
    return 1 << (gpus.bit_length() - 1) if gpus > 0 else 0


def _shorter(snapshot: Snapshot, spec: JobSpec, now_ms: int) -> list[int]:
    """Limits that end before something that others are promised begins, longest first, in whole minutes."""
    begins = {held.start_ms for held in snapshot.reservations.held}
    begins |= {booking.start_ms for booking in snapshot.bookings.values()}
    for name in snapshot.windowed:
        intent = snapshot.nodes[name].intent
        begins |= {window.start_ms for window in intent.maintenance} if intent is not None else set()
    limits = {_round(at - now_ms) for at in begins}
    fitting = sorted((limit for limit in limits if MINUTE_MS <= limit < spec.max_runtime_ms), reverse=True)
    if len(fitting) <= LIMIT_TRIES:
        return fitting
    return [fitting[0], fitting[len(fitting) // 2], fitting[-1]]


def _round(limit_ms: int) -> int:
    step = 15 * MINUTE_MS if limit_ms >= 60 * MINUTE_MS else 5 * MINUTE_MS if limit_ms >= 15 * MINUTE_MS else MINUTE_MS
    return limit_ms // step * step
