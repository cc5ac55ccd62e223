"""The map of the cluster as sockets show it: every host and GPU at first, then the hosts that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler import selectors
from scheduler.picture import Picture, Touched

Row = list[Any]


class ClusterBoard:
    """Payloads have the shape of ``selectors.cluster_map``; a delta also has ``gone``, hosts that left
    the fleet, and ``held`` only where that has changed."""

    def __init__(self, picture: Picture, now_ms: Callable[[], int]) -> None:
        self._picture, self._now_ms = picture, now_ms
        self._nodes: dict[str, Row] = {}
        self._held: list[dict[str, Any]] = []

    def load(self) -> int:
        found = selectors.cluster_map(self._picture, self._now_ms())
        self._nodes = {row[0]: row for row in with_jobs(found)}
        self._held = found["held"]
        return int(found["revision"])

    def take(self, touched: Touched) -> tuple[int, dict[str, Any] | None]:
        if not touched.nodes and not touched.reservations:
            return touched.revision, None
        found = selectors.map_delta(self._picture, touched.nodes, self._now_ms())
        changed = [row for row in with_jobs(found) if self._nodes.get(row[0]) != row]
        gone = [name for name in found["gone"] if name in self._nodes]
        self._nodes.update((row[0], row) for row in changed)
        for name in gone:
            del self._nodes[name]
        held = selectors.holds(self._picture, self._now_ms())
        change: dict[str, Any] = {**compact(changed), "gone": gone}
        if held != self._held:
            self._held = change["held"] = held
        return int(found["revision"]), change if changed or gone or "held" in change else None

    def snapshot(self) -> dict[str, Any]:
        return {**compact(list(self._nodes.values())), "held": self._held}


def with_jobs(found: dict[str, Any]) -> list[Row]:
    """The map's rows with each job itself in the place of its index: two such rows are equal if they look alike."""
    jobs = [tuple(job) for job in found["jobs"]]
    return [[*row[:-1], [jobs[slot] if slot >= 0 else slot for slot in row[-1]]] for row in found["nodes"]]


def compact(rows: list[Row]) -> dict[str, Any]:
    """The inverse of ``with_jobs``."""
    places: dict[tuple[Any, ...], int] = {}

    def place(slot: Any) -> int:
        return slot if isinstance(slot, int) else places.setdefault(slot, len(places))

    nodes = [[*row[:-1], [place(slot) for slot in row[-1]]] for row in rows]
    return {"nodes": nodes, "jobs": [list(job) for job in places]}
