"""What went wrong with the fleet, told from its events: each with when, where, and what the system did about it. Pure.

An *incident* is opened by the first bad word about a host or a GPU and closed by the good one. Hosts of one rack that
fell silent within ``TOGETHER_MS`` of each other are one incident: their rack's. A notice is one from the moment at
which it came until it is over or the host is gone; a fault for which a program has to be restarted is one by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

TOGETHER_MS = 60_000
AFTER_MS = 120_000
"""A job stopped on a host within this long after it failed was stopped for it."""
RACK_FROM = 3
"""So many hosts of a rack make it the rack's incident."""
_BETTER = {"READY": 0, "SUSPECT": 1, "QUARANTINED": 2, "DOWN": 3}
_UNPLANNED = ("node_failure", "rank_failure", "spot")
_OF_NOTICES = ("spot", "drain")
_GONE = "taken away by its provider"
_GPU_STAYS = ("ignore", "restart_app")


@dataclass(frozen=True, slots=True)
class HostEvent:
    """``kind`` is ``host``, ``gpu`` or ``notice``; ``state`` the host's health, FAULTY, OK or XID of one GPU, STANDS or
    OVER of a notice. ``what`` is what an Xid calls for, or the kind of a notice."""

    at_ms: int
    node: str
    kind: str
    state: str
    why: str = ""
    gpu: int | None = None
    xid: int | None = None
    what: str = ""


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
    """``kind`` is the worst state reached (``SUSPECT``, ``DOWN``, ``QUARANTINED``, ``FAULTY``), ``RACK`` or, where no
    host of it was given up, ``RACK_BLIP``; ``XID``; or ``NOTICE``.

    ``end_ms`` is None while it lasts. ``place`` is ``(az, rack)`` where known. ``what`` is as in the event.
    """

    kind: str
    start_ms: int
    end_ms: int | None
    nodes: list[str]
    why: str
    place: tuple[str, str] = ("", "")
    gpu: int | None = None
    jobs: list[Stopped] = field(default_factory=list)
    what: str = ""


def tell(
    events: Iterable[HostEvent], stopped: Iterable[Stopped], places: Mapping[str, tuple[str, str]]
) -> list[Incident]:
    """The incidents, the newest first. ``events`` are in order of time, ``places`` maps hosts to (az, rack)."""
    story = _Story(places)
    for event in events:
        story.take(event)
    told = _by_rack(story.found)
    _attach(told, list(stopped))
    return sorted(told, key=lambda one: (-one.start_ms, one.nodes))


class _Story:
    """The incidents so far, and those that are open: by host, by GPU, by notice."""

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        self._places = places
        self.found: list[Incident] = []
        self._hosts: dict[str, Incident] = {}
        self._gpus: dict[tuple[str, int | None], Incident] = {}
        self._notices: dict[str, dict[str, Incident]] = {}
        self._xids: dict[tuple[str, int | None], HostEvent] = {}

    def take(self, event: HostEvent) -> None:
        match event.kind:
            case "gpu":
                self._gpu(event)
            case "notice":
                self._notice(event)
            case _:
                self._host(event)

    def _open(self, kind: str, event: HostEvent, end_ms: int | None = None) -> Incident:
        place = self._places.get(event.node, ("", ""))
        incident = Incident(kind, event.at_ms, end_ms, [event.node], event.why, place, event.gpu, what=event.what)
        self.found.append(incident)
        return incident

    def _host(self, event: HostEvent) -> None:
        incident = self._hosts.get(event.node)
        if event.state == "READY":
            if incident is not None:
                incident.end_ms = event.at_ms
                del self._hosts[event.node]
        elif incident is not None:
            if _BETTER.get(event.state, 0) >= _BETTER.get(incident.kind, 0):
                incident.kind, incident.why = event.state, event.why or incident.why
        elif event.why == _GONE and self._notices.get(event.node):
            for notice in self._notices.pop(event.node).values():
                notice.end_ms = event.at_ms
        else:
            self._hosts[event.node] = self._open(event.state, event)

    def _gpu(self, event: HostEvent) -> None:
        key = event.node, event.gpu
        if event.state == "XID":
            self._xids[key] = event
            if event.what == "restart_app":
                self._open("XID", event, event.at_ms)
        elif event.state == "OK":
            incident = self._gpus.pop(key, None)
            if incident is not None:
                incident.end_ms = event.at_ms
        elif key not in self._gpus:
            xid = self._xids.get(key)
            incident = self._gpus[key] = self._open("FAULTY", event)
            if xid is not None and xid.what not in _GPU_STAYS and event.at_ms - xid.at_ms <= TOGETHER_MS:
                incident.why, incident.what = xid.why, xid.what

    def _notice(self, event: HostEvent) -> None:
        opened = self._notices.setdefault(event.node, {})
        if event.state == "OVER":
            incident = opened.pop(event.why, None)
            if incident is not None:
                incident.end_ms = event.at_ms
        elif event.why not in opened:
            opened[event.why] = self._open("NOTICE", event)
            opened[event.why].why = ""


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
    kind = "RACK" if any(one.kind == "DOWN" for one in group) else "RACK_BLIP"
    return Incident(kind, group[0].start_ms, end, nodes, group[0].why, place)


def _attach(incidents: list[Incident], stopped: list[Stopped]) -> None:
    """Each job that was stopped without a plan, or for a notice, belongs to the last incident of its hosts before."""
    by_node: dict[str, list[Incident]] = {}
    for incident in sorted(incidents, key=lambda one: one.start_ms):
        for node in incident.nodes:
            by_node.setdefault(node, []).append(incident)
    for job in stopped:
        near = [
            incident
            for node in job.nodes
            for incident in by_node.get(node, ())
            if job.cause in (_OF_NOTICES if incident.kind == "NOTICE" else _UNPLANNED)
            and incident.start_ms <= job.at_ms
            and (incident.end_ms is None or job.at_ms <= incident.end_ms + AFTER_MS)
        ]
        if near:
            latest = max(near, key=lambda one: one.start_ms)
            latest.jobs.append(job)
