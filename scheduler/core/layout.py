"""Where a reservation lies: its whole nodes as bitsets by rack, the others one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.core.topology import Node, Pool, Rack
from scheduler.core.types import Reason, Reservation


@dataclass(frozen=True, slots=True)
class Bar:
    """``takes`` GPUs of a node are closed from ``from_ms`` until ``to_ms`` (None: for as long as the bar stands).

    ``why`` is the reason it gives to those it keeps out. It does not keep out its owner (``job``, or every job of
    ``team``), nor a job of a higher class. ``planned``: it only keeps a place for later, as against one for which
    somebody is being stopped; that one gives way only to who could stop its owner if it ran. ``gathered``: it keeps
    what is free now, beyond what its owner was promised; a team below its floor does not wait for that.
    """

    from_ms: int
    to_ms: int | None
    takes: int
    why: Reason
    job: str | None = None
    team: str | None = None
    priority: int = -1
    planned: bool = False
    gathered: bool = False


@dataclass(slots=True)
class Layout:
    """``racks`` are the nodes that are held whole, ``partial`` those of which some GPUs are.

    ``closing`` are the bars on them for an owner of one team and class: what is held now is closed from 0 on.
    """

    held: Reservation
    racks: list[tuple[Rack, int]]
    whole: list[Node]
    partial: list[tuple[Node, int]]
    closing: Closing | None = None
    _rows: dict[Pool, NDArray[np.intp]] = field(default_factory=dict)

    def rows(self, pool: Pool) -> NDArray[np.intp]:
        """Where the whole nodes are in the pool's table (see ``rows``)."""
        rows = self._rows.get(pool)
        if rows is None:
            at = [node.row for node in self.whole if node.rack is not None and node.rack.pool is pool]
            rows = self._rows[pool] = np.array(at, dtype=np.intp)
        return rows

    def bars(self, team: str, priority: int) -> Closing:
        """The bars that close it to all but its owner, a job of this team and class."""
        closing = self.closing
        if closing is None or closing.owner != (team, priority):
            closing = self.closing = Closing.of(self, team, priority)
        return closing


@dataclass(frozen=True, slots=True)
class Closing:
    """The bars of one promise: ``whole`` is one for all its whole nodes, ``racks`` has (rack, (moment, nodes, bar))."""

    owner: tuple[str, int]
    whole: Bar | None
    racks: list[tuple[Rack, tuple[int, int, Bar]]]
    partial: list[tuple[Node, Bar]]

    @classmethod
    def of(cls, layout: Layout, team: str, priority: int) -> Closing:
        held = layout.held
        start = 0 if held.firm else held.start_ms
        owner = (held.job, team, priority, not held.firm)
        why = Reason.HELD_FOR_LARGER_JOB
        partial = [(node, Bar(start, None, takes, why, *owner)) for node, takes in layout.partial]
        if not layout.whole:
            return cls((team, priority), None, [], partial)
        whole = Bar(start, None, layout.racks[0][0].pool.size, why, *owner)
        return cls((team, priority), whole, [(rack, (start, mask, whole)) for rack, mask in layout.racks], partial)


class Layouts:
    """The layouts of the reservations in force, found by the record itself."""

    def __init__(self) -> None:
        self._known: dict[int, Layout] = {}

    def of(self, held: Reservation, nodes: dict[str, Node]) -> Layout:
        """The layout of ``held``; nodes that are no more are left out."""
        layout = self._known.get(id(held))
        if layout is None or layout.held is not held:
            layout = self._known[id(held)] = _lay_out(held, nodes)
        return layout

    def forget(self) -> None:
        """The topology has changed."""
        self._known.clear()

    def keep(self, held: tuple[Reservation, ...]) -> None:
        """Let go of all others."""
        kept = {id(one) for one in held}
        if len(self._known) > 4 * len(kept) + 64:
            self._known = {key: layout for key, layout in self._known.items() if key in kept}


def _lay_out(held: Reservation, nodes: dict[str, Node]) -> Layout:
    masks: dict[Rack, int] = {}
    layout = Layout(held, [], [], [])
    for name, takes in zip(held.nodes, held.takes, strict=True):
        node = nodes.get(name)
        if node is None or node.rack is None:
            continue
        if takes == node.rack.pool.size and held.job is not None:
            masks[node.rack] = masks.get(node.rack, 0) | node.bit
            layout.whole.append(node)
        else:
            layout.partial.append((node, takes))
    layout.racks = list(masks.items())
    return layout
