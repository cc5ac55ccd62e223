"""The fleet as it stands: sums, the map, the hosts one by one. All of it from the picture; no query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.fragmentation import largest_gang
from scheduler.core.job import Job
from scheduler.core.lifecycle import planned_end_ms
from scheduler.core.probation import failures, flap_score
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node, bits
from scheduler.core.types import HOLDING, WORKING, HostState, Phase
from scheduler.picture import Picture
from scheduler.policy import live_policy

FREE, FAULTY = -1, -2
"""What a slot of the map holds that no job does; a job is an index, from 0, into the map's list of jobs."""


@dataclass(slots=True)
class GpuCounts:
    """The GPUs of one type: ``total = used + free + closed + faulty``.

    ``free`` are healthy, held by no job and on READY hosts, ``closed`` the same on hosts that take no work now;
    ``largest_gang`` is how many of them one gang could get at once, ``waiting`` how many waiting jobs ask for.
    """

    total: int = 0
    used: int = 0
    free: int = 0
    closed: int = 0
    faulty: int = 0
    largest_gang: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """``gpus`` by type, ``hosts`` by ``HostState``, ``jobs`` and ``jobs_gpus`` by phase: counts, and GPUs asked for."""

    revision: int
    fresh: bool
    stale_since_ms: int | None
    gpus: dict[str, GpuCounts]
    hosts: dict[str, int]
    jobs: dict[str, int]
    jobs_gpus: dict[str, int]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A host in a list. ``jobs`` counts the gangs that have a part on it."""

    name: str
    az: str
    rack: str
    gpu_type: str
    gpus: int
    free: int
    faulty: int
    state: str
    spot: str | None
    cordon: str | None
    drain: str | None
    jobs: int


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A host with what is on it.

    ``slots`` holds for each GPU ``{"gpu", "job", "faulty"}``; ``held_by`` each gang with a part here, with ``id``,
    ``team``, ``phase``, ``priority``, ``gpus`` (of the whole gang), ``here`` (GPU indices) and ``checkpoints``.
    ``flap_score`` is how often it fell silent of late, ``flaps_most`` how often sets it aside (0: never); ``relapses``
    how often it was set aside without having passed a probation since. ``notices`` is what is coming over it: ``kind``,
    ``id`` and ``gone_at_ms``. ``failures`` are ``{"at_ms", "job"}`` of attempts that are held against it.
    """

    revision: int
    row: NodeRow
    address: str
    cpus: int
    memory_gb: int
    scratch_gb: int
    nvlink: bool
    alive: bool
    boot_id: str
    gone_at_ms: int | None
    since_ms: int | None
    why: str
    maintenance: tuple[tuple[int, int], ...]
    flap_score: int
    flaps_most: int
    relapses: int
    set_aside_until_ms: int | None
    probation_until_ms: int | None
    notices: tuple[dict[str, Any], ...]
    failures: tuple[dict[str, Any], ...]
    slots: tuple[dict[str, Any], ...] = ()
    held_by: tuple[dict[str, Any], ...] = field(default=())


def cluster(picture: Picture, now_ms: int) -> ClusterSummary:
    """The sums over the fleet and over the jobs that live.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        hosts: Counter[str] = Counter()
        gpus: dict[str, GpuCounts] = {}
        for node in snapshot.nodes.values():
            state = node.state(now_ms)
            hosts[state.value] += 1
            _count(gpus.setdefault(_inventory(node).gpu_type, GpuCounts()), node, state)
        for gpu_type, counts in gpus.items():
            counts.largest_gang = largest_gang(snapshot, gpu_type)
        jobs: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            jobs[job.phase.value] += 1
            asked[job.phase.value] += job.spec.gpus
            if job.phase is Phase.PENDING and job.spec.gpu_type in gpus:
                gpus[job.spec.gpu_type].waiting += job.spec.gpus
        shown = picture.revision, picture.fresh, picture.stale_since_ms
        return ClusterSummary(*shown, dict(sorted(gpus.items())), dict(hosts), dict(jobs), dict(asked))


def cluster_map(picture: Picture, now_ms: int) -> dict[str, Any]:
    """Every host and every GPU, as compact as JSON allows (about 20 kB gzip for 1,250 hosts), the same for everybody.

    ``nodes`` is ``[[name, az, rack, gpu type, host state, [slot of each GPU]]]``, where a slot is ``FREE``, ``FAULTY``
    or an index into ``jobs``, ``[[id, team, phase, GPUs, priority, end]]``: when its GPUs come free by plan, in seconds
    since the epoch. ``held`` is ``holds()``. ``revision``, ``fresh`` and ``stale_since_ms``
    are the picture's.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        return {**_map(picture, snapshot, list(snapshot.nodes), now_ms), "held": _holds(snapshot, now_ms)}


def holds(picture: Picture, now_ms: int) -> list[dict[str, Any]]:
    """What is kept for later: places promised to waiting gangs, reservations of teams, maintenance windows.

    Each has ``kind`` (``gang``, ``team`` or ``maintenance``), ``start`` and ``end`` in seconds since the epoch (``end``
    None: for as long as it takes), ``nodes``, ``[[name, GPUs]]``, ``team`` and, of a gang, ``job``; of a team, ``name``
    is that of its reservation's intent. Raises as ``cluster``.
    """
    with picture.reading() as snapshot:
        return _holds(snapshot, now_ms)


def map_delta(picture: Picture, names: Iterable[str], now_ms: int) -> dict[str, Any]:
    """The map of these hosts alone, such as ``Touched.nodes``; ``gone`` names those that are no part of the fleet."""
    with picture.reading() as snapshot:
        wanted = sorted(set(names))
        found = _map(picture, snapshot, [name for name in wanted if name in snapshot.nodes], now_ms)
        return {**found, "gone": [name for name in wanted if name not in snapshot.nodes]}


def nodes(picture: Picture, now_ms: int) -> list[NodeRow]:
    """Every host, by zone, rack and name. Raises as ``cluster``."""
    with picture.reading() as snapshot:
        rows = [_node_row(node, now_ms) for node in snapshot.nodes.values()]
    return sorted(rows, key=lambda row: (row.az, row.rack, row.name))


def node(picture: Picture, name: str, now_ms: int) -> NodeDetail | None:
    """One host, or None if it is no part of the fleet. Raises as ``cluster``."""
    with picture.reading() as snapshot:
        found = snapshot.nodes.get(name)
        return None if found is None else _detail(picture.revision, snapshot, found, now_ms)


def _holds(snapshot: Snapshot, now_ms: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for held in snapshot.reservations.held:
        job = snapshot.jobs.get(held.job) if held.job is not None else None
        found.append(
            {
                "kind": "team" if held.job is None else "gang",
                "team": held.team if job is None else job.spec.team,
                "job": held.job,
                "name": held.name,
                "start": held.start_ms // 1000,
                "end": None if held.end_ms is None else held.end_ms // 1000,
                "nodes": [list(part) for part in zip(held.nodes, held.takes, strict=True)],
            }
        )
    windows: dict[tuple[int, int], list[list[Any]]] = {}
    for name in sorted(snapshot.windowed):
        intent = _inventory(snapshot.nodes[name])
        for window in intent.maintenance:
            if window.end_ms > now_ms:
                span = window.start_ms // 1000, window.end_ms // 1000
                windows.setdefault(span, []).append([name, intent.gpus])
    for (start, end), names in sorted(windows.items()):
        kept = {"kind": "maintenance", "team": None, "job": None, "name": "", "start": start, "end": end}
        found.append({**kept, "nodes": names})
    return found


def _inventory(node: Node) -> Any:
    assert node.intent is not None, "snapshot.nodes holds what has an intent"
    return node.intent


def _count(counts: GpuCounts, node: Node, state: HostState) -> None:
    held, faulty = node.held.bit_count(), (node.faulty & ~node.held).bit_count()
    counts.total += node.all_mask.bit_count()
    counts.used += held
    counts.faulty += faulty
    if state in WORKING:
        counts.free += node.free_gpus
    else:
        counts.closed += node.free_gpus


def _map(picture: Picture, snapshot: Snapshot, names: list[str], now_ms: int) -> dict[str, Any]:
    places: dict[str, int] = {}
    rows = [_cells(snapshot.nodes[name], places, now_ms) for name in names]
    return {
        "revision": picture.revision,
        "fresh": picture.fresh,
        "stale_since_ms": picture.stale_since_ms,
        "nodes": rows,
        "jobs": [_map_job(snapshot.jobs.get(job), job) for job in places],
    }


def _cells(node: Node, places: dict[str, int], now_ms: int) -> list[Any]:
    slots = [FREE] * node.all_mask.bit_count()
    for gpu in bits(node.faulty & node.all_mask):
        slots[gpu] = FAULTY
    for job, mask in node.jobs.items():
        place = places.setdefault(job, len(places))
        for gpu in bits(mask):
            slots[gpu] = place
    intent = _inventory(node)
    return [node.name, intent.az, intent.rack, intent.gpu_type, node.state(now_ms).value, slots]


def _map_job(job: Job | None, job_id: str) -> list[Any]:
    if job is None:
        # Its intent is gone and its decision, which holds the GPUs, is not yet.
        return [job_id, "", Phase.STOPPING.value, 0, 3, None]
    ends = planned_end_ms(job.spec, job.decision) // 1000 if job.phase in HOLDING else None
    return [job_id, job.spec.team, job.phase.value, job.spec.gpus, job.priority, ends]


def _node_row(node: Node, now_ms: int) -> NodeRow:
    intent = _inventory(node)
    return NodeRow(
        name=node.name,
        az=intent.az,
        rack=intent.rack,
        gpu_type=intent.gpu_type,
        gpus=intent.gpus,
        free=node.free_gpus,
        faulty=node.faulty.bit_count(),
        state=node.state(now_ms).value,
        spot=intent.spot,
        cordon=intent.cordon,
        drain=intent.drain,
        jobs=len(node.jobs),
    )


def _detail(revision: int, snapshot: Snapshot, node: Node, now_ms: int) -> NodeDetail:
    intent = _inventory(node)
    holder = {gpu: job for job, mask in node.jobs.items() for gpu in bits(mask)}
    faulty = set(bits(node.faulty))
    return NodeDetail(
        revision=revision,
        row=_node_row(node, now_ms),
        address=intent.address,
        cpus=intent.cpus,
        memory_gb=intent.memory_gb,
        scratch_gb=intent.scratch_gb,
        nvlink=intent.nvlink,
        alive=node.alive,
        boot_id=node.report.boot_id if node.report else "",
        gone_at_ms=node.report.gone_at_ms if node.report else None,
        since_ms=node.decision.since_ms if node.decision else None,
        why=node.decision.why if node.decision else "",
        maintenance=tuple((window.start_ms, window.end_ms) for window in intent.maintenance),
        **_standing(node, now_ms),
        slots=tuple({"gpu": gpu, "job": holder.get(gpu), "faulty": gpu in faulty} for gpu in range(intent.gpus)),
        held_by=tuple(_held_by(snapshot.jobs[job], mask) for job, mask in node.jobs.items() if job in snapshot.jobs),
    )


def _standing(node: Node, now_ms: int) -> dict[str, Any]:
    """What is held against the host, and what is coming over it."""
    policy, decision = live_policy(), node.decision
    span = decision.quarantine if decision is not None else None
    probation_ms = decision.probation_ms if decision is not None else 0
    return {
        "flap_score": flap_score(node, policy, now_ms),
        "flaps_most": policy.flap_after,
        "relapses": decision.relapses if decision is not None else 0,
        "set_aside_until_ms": span.end_ms if span is not None and span.end_ms > now_ms else None,
        "probation_until_ms": probation_ms if probation_ms > now_ms else None,
        "notices": tuple(
            {"kind": one.kind.value, "id": one.id, "gone_at_ms": one.gone_at_ms}
            for one in (node.report.notices if node.report is not None else ())
        ),
        "failures": tuple({"at_ms": at, "job": job} for at, job in failures(node, now_ms)),
    }


def hindrances(picture: Picture, name: str) -> list[tuple[str, str]]:
    """The jobs whose gangs the node cannot prepare, and what is in the way: a word for those who may know the job.

    Raises:
        StoreUnavailable: the live state was never loaded.
    """
    with picture.reading() as snapshot:
        node = snapshot.nodes.get(name)
        told = node.report.gangs if node is not None and node.report is not None else ()
        jobs = ((snapshot.jobs.get(gang.job), gang) for gang in told if gang.hindrance)
        return [
            (job.id, gang.hindrance)
            for job, gang in jobs
            if job is not None and job.phase is Phase.STARTING and job.decision.attempt == gang.attempt
        ]


def _held_by(job: Job, mask: int) -> dict[str, Any]:
    return {
        "id": job.id,
        "team": job.spec.team,
        "phase": job.phase.value,
        "priority": job.priority,
        "gpus": job.spec.gpus,
        "here": list(bits(mask)),
        "checkpoints": job.spec.checkpoint is not None,
    }
