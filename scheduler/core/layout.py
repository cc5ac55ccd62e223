"""Where a reservation lies: its whole nodes as bitsets by rack, the others one by one."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.topology import Node, Rack
from scheduler.core.types import Reservation


@dataclass(slots=True)
class Layout:
    """``racks`` are the nodes that are held whole, ``partial`` those of which some GPUs are."""

    held: Reservation
    racks: list[tuple[Rack, int]]
    whole: list[Node]
    partial: list[tuple[Node, int]]


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
