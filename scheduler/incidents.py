"""What went wrong with the fleet, told from its events: each with when, where, and what the system did about it. Pure.

An *incident* is opened by the first bad word about a host or a GPU and closed by the good one. Hosts of one rack that
fell silent within ``TOGETHER_MS`` of each other are one incident: their rack's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TOGETHER_MS = 60_000
AFTER_MS = 120_000
"""A job stopped on a host within this long after it failed was stopped for it."""
RACK_FROM = 3
"""So many hosts of a rack make it the rack's incident."""
_BETTER = {"READY": 0, "SUSPECT": 1, "QUARANTINED": 2, "DOWN": 3}
_UNPLANNED = ("node_failure", "rank_failure", "spot")


@dataclass(frozen=True, slots=True)
class HostEvent:
    """``kind`` is ``host`` or ``gpu``; ``state`` the host's health, or FAULTY or OK of one GPU."""

    at_ms: int
    node: str
    kind: str
    state: str
    why: str = ""
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that was stopped on ``nodes``. ``again_ms`` and ``to`` tell when and where it was bound next."""

    job: str
    at_ms: int
    cause: str
    nodes: tuple[str, ...]
    again_ms: int | None = None
    to: tuple[str, ...] = ()


@dataclass(slots=True)
class Incident:
    """``kind`` is the worst state reached (``SUSPECT``, ``DOWN``, ``QUARANTINED``, ``FAULTY``) or ``RACK``.

    ``end_ms`` is None while it lasts. ``place`` is ``(az, rack)`` where known.
    """

    kind: str
    start_ms: int
    end_ms: int | None
    nodes: list[str]
    why: str
    place: tuple[str, str] = ("", "")
    gpu: int | None = None
    jobs: list[Stopped] = field(default_factory=list)


def tell(
    events: Iterable[HostEvent], stopped: Iterable[Stopped], places: Mapping[str, tuple[str, str]]
) -> list[Incident]:
    """The incidents, the newest first. ``events`` are in order of time, ``places`` maps hosts to (az, rack)."""
    open_hosts: dict[str, Incident] = {}
    open_gpus: dict[tuple[str, int | None], Incident] = {}
    found: list[Incident] = []
    for event in events:
        if event.kind == "gpu":
            _gpu(event, open_gpus, found, places)
        else:
            _host(event, open_hosts, found, places)
    told = _by_rack(found)
    _attach(told, list(stopped))
    return sorted(told, key=lambda one: (-one.start_ms, one.nodes))


def _host(event: HostEvent, opened: dict[str, Incident], found: list[Incident], places: Mapping[str, Any]) -> None:
    incident = opened.get(event.node)
    if event.state == "READY":
        if incident is not None:
            incident.end_ms = event.at_ms
            del opened[event.node]
        return
    if incident is None:
        place = places.get(event.node, ("", ""))
        incident = Incident(event.state, event.at_ms, None, [event.node], event.why, place)
        opened[event.node] = incident
        found.append(incident)
    elif _BETTER.get(event.state, 0) > _BETTER.get(incident.kind, 0):
        incident.kind, incident.why = event.state, event.why or incident.why


def _gpu(event: HostEvent, opened: dict[Any, Incident], found: list[Incident], places: Mapping[str, Any]) -> None:
    key = event.node, event.gpu
    if event.state == "OK":
        incident = opened.pop(key, None)
        if incident is not None:
            incident.end_ms = event.at_ms
    elif key not in opened:
        place = places.get(event.node, ("", ""))
        opened[key] = Incident("FAULTY", event.at_ms, None, [event.node], "", place, event.gpu)
        found.append(opened[key])


def _by_rack(found: list[Incident]) -> list[Incident]:
    """Put together what fell silent together in one rack."""
    answer: list[Incident] = []
    silent: dict[tuple[str, str], list[Incident]] = {}
    for incident in found:
        if incident.kind in ("SUSPECT", "DOWN") and incident.place[1]:
            silent.setdefault(incident.place, []).append(incident)
        else:
            answer.append(incident)
    for place, own in silent.items():
        for group in _together(sorted(own, key=lambda one: one.start_ms)):
            answer += [_rack(place, group)] if len(group) >= RACK_FROM else group
    return answer


def _together(own: list[Incident]) -> list[list[Incident]]:
    groups: list[list[Incident]] = []
    for incident in own:
        if groups and incident.start_ms - groups[-1][0].start_ms <= TOGETHER_MS:
            groups[-1].append(incident)
        else:
            groups.append([incident])
    return groups


def _rack(place: tuple[str, str], group: list[Incident]) -> Incident:
    ends = [one.end_ms for one in group]
    end = None if None in ends else max(end for end in ends if end is not None)
    nodes = sorted(node for one in group for node in one.nodes)
    return Incident("RACK", group[0].start_ms, end, nodes, group[0].why, place)


def _attach(incidents: list[Incident], stopped: list[Stopped]) -> None:
    """Each job that was stopped without a plan belongs to the last incident of one of its hosts before that."""
    by_node: dict[str, list[Incident]] = {}
    for incident in sorted(incidents, key=lambda one: one.start_ms):
        for node in incident.nodes:
            by_node.setdefault(node, []).append(incident)
    for job in stopped:
        if job.cause not in _UNPLANNED:
            continue
        near = [
            incident
            for node in job.nodes
            for incident in by_node.get(node, ())
            if incident.start_ms <= job.at_ms and (incident.end_ms is None or job.at_ms <= incident.end_ms + AFTER_MS)
        ]
        if near:
            latest = max(near, key=lambda one: one.start_ms)
            latest.jobs.append(job)
