"""Reservations ahead of time: which nodes a team will find free at the start of its booking.

Nothing is stopped for a booking: it gets what will be free by then, and more when more comes free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.core.draft import Draft
from scheduler.core.horizon import Horizon
from scheduler.core.limits import Asker, Limits
from scheduler.core.topology import Node
from scheduler.core.types import JobSpec, Reservation, ReservationIntent
from scheduler.core.waiting import Shape, spot_providers


def booked(draft: Draft, limits: Limits, horizon: Horizon, before: Sequence[Reservation]) -> list[Reservation]:
    """The holds of all bookings that are not over, those in force kept as they are as far as their nodes live."""
    snapshot, now = draft.snapshot, draft.now_ms
    known = {held.name: held for held in before}
    answer = []
    for name, wish in sorted(snapshot.bookings.items(), key=lambda entry: (entry[1].start_ms, entry[0])):
        if snapshot.planned_ms < wish.end_ms <= now or snapshot.planned_ms < wish.start_ms <= now:
            snapshot.work.gained.add(wish.gpu_type)
        if wish.end_ms <= now:
            continue
        draft.wake(wish.start_ms if wish.start_ms > now else wish.end_ms)
        held = _kept(draft, known.get(name), wish)
        missing = wish.gpus - sum(held.takes)
        if missing > 0:
            held = _more(draft, horizon, held, wish, missing)
        answer.append(held)
        limits.add(held)
        horizon.changed()
    return answer


def _kept(draft: Draft, held: Reservation | None, wish: ReservationIntent) -> Reservation:
    """What is held already, without the nodes that are gone and without what is wanted no more."""
    parts: list[tuple[str, int]] = []
    left = wish.gpus
    same = held is not None and (held.start_ms, held.gpu_type, held.team) == (wish.start_ms, wish.gpu_type, wish.team)
    if held is not None and same:
        for name, takes in zip(held.nodes, held.takes, strict=True):
            node = draft.snapshot.nodes.get(name)
            if node is not None and node.open and left > 0:
                parts.append((name, min(takes, left)))
                left -= min(takes, left)
    return Reservation(
        nodes=tuple(name for name, _ in parts),
        start_ms=wish.start_ms,
        team=wish.team,
        name=wish.name,
        gpus=wish.gpus,
        gpu_type=wish.gpu_type,
        end_ms=wish.end_ms,
        takes=tuple(takes for _, takes in parts),
    )


def _more(draft: Draft, horizon: Horizon, held: Reservation, wish: ReservationIntent, missing: int) -> Reservation:
    """Add nodes that will be free at the start, in the zone where most of them are, whole ones first."""
    start = max(wish.start_ms, draft.now_ms)
    length = wish.end_ms - start
    spec = JobSpec("", wish.team, 1, wish.gpu_type, 0, length, start)
    shape = Shape(spec, (), spot_providers(replace(spec, checkpoint=None)))
    asker = Asker("", wish.team, 0)
    best: list[tuple[str, int]] = []
    for zone in draft.snapshot.topology.by_type.get(wish.gpu_type, ()):
        nodes: list[tuple[int, str, Node]] = []
        for rack in zone.racks():
            for node in rack.nodes:
                if node.open and node.rack is rack and node.name not in held.nodes:
                    ready = sum(1 for at in horizon.row(node, asker, shape, length) if at <= start)
                    if ready:
                        nodes.append((-ready, node.name, node))
        parts, left = [], missing
        for ready, name, _ in sorted(nodes, key=lambda entry: entry[:2]):
            if left > 0:
                parts.append((name, min(-ready, left)))
                left -= min(-ready, left)
        if sum(takes for _, takes in parts) > sum(takes for _, takes in best):
            best = parts
    return replace(
        held,
        nodes=held.nodes + tuple(name for name, _ in best),
        takes=held.takes + tuple(takes for _, takes in best),
    )
