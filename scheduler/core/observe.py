"""What the agents' reports say of one attempt, taken together."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.checkpoints import known_torn
from scheduler.core.job import Job
from scheduler.core.snapshot import Snapshot
from scheduler.core.topology import Node
from scheduler.core.types import ENDED_RANK, GangReport, Health, Phase, RankState, Remedy


@dataclass(slots=True)
class Sight:
    """One attempt as its nodes report it. A report of another attempt counts as none.

    ``lost`` says which node took its ranks with it, and why; ``failed`` is the first rank that ended badly (rank,
    exit code, node). ``ready``: every rank is. ``done``: every rank ended well. ``living``: the nodes on which a rank
    may still run. ``unready``: those that hold a start up, with what is in their way where they say it.
    ``acknowledged``: every node has saved, or has nothing left to save, or one has written a manifest, which stands for
    the whole gang. ``manifest`` and ``step`` are those of the
    newest checkpoint that has one. ``port`` is where the ranks can meet. ``silent``: one of the nodes is not heard, and
    not given up yet. ``exits``: ranks that ended by themselves.
    """

    lost: list[tuple[str, str]] = field(default_factory=list)
    failed: tuple[int, int | None, str] | None = None
    ready: bool = True
    done: bool = True
    living: list[str] = field(default_factory=list)
    unready: dict[str, str] = field(default_factory=dict)
    acknowledged: bool = True
    saved_work_ms: int | None = None
    saved_at_ms: int = 0
    manifest: str = ""
    step: int = 0
    port: int = 0
    silent: bool = False
    exits: list[tuple[int, int]] = field(default_factory=list)


def look(snapshot: Snapshot, job: Job) -> Sight:
    """Gather what is reported of the job's present attempt."""
    sight = Sight()
    whole = False
    for part in job.decision.allocation:
        node = snapshot.node(part.node)
        if _gone(sight, job, node):
            continue
        sight.silent = sight.silent or not node.alive
        gang = node.gangs.get(job.id)
        if gang is None or gang.attempt != job.decision.attempt:
            _unlisted(sight, job, node)
        else:
            _listed(sight, job, gang, node)
            whole = whole or (gang.acknowledged and gang.manifest != "")
            sight.port = sight.port or gang.port
        _broken(sight, job, node)
    sight.acknowledged = sight.acknowledged or whole
    return sight


def _broken(sight: Sight, job: Job, node: Node) -> None:
    """A fault after which the program on the GPU has to be started anew, whether or not its rank has noticed. Those
    that programs bring about are the rank's failure, the others the fleet's."""
    for fault in node.report.faults if node.report is not None else ():
        ours = fault.job == job.id and fault.attempt == job.decision.attempt
        if not ours or fault.remedy is not Remedy.RESTART_APP:
            continue
        if not fault.own:
            sight.lost.append((node.name, f"GPU fault, Xid {fault.xid}"))
        elif sight.failed is None:
            _, part, ranks = job.layout.places[node.name]
            at = part.gpus.index(fault.gpu) if fault.gpu in part.gpus else 0
            sight.failed = (ranks[at], None, node.name)
        sight.ready = sight.done = False


def _gone(sight: Sight, job: Job, node: Node) -> bool:
    """Whether the node, or a GPU of the job on it, is no more; the ranks are then as good as ended."""
    if node.intent is None:
        why = "no longer registered"
    elif node.health is Health.DOWN:
        why = "host lost"
    elif node.jobs.get(job.id, 0) & node.faulty:
        why = "GPU fault"
    else:
        return False
    sight.lost.append((node.name, why))
    sight.ready = sight.done = False
    return True


def _unlisted(sight: Sight, job: Job, node: Node) -> None:
    sight.ready = sight.done = False
    if job.phase is Phase.STARTING:
        sight.unready[node.name] = ""
    elif not node.alive:
        sight.living.append(node.name)
        sight.acknowledged = False
    elif job.phase is Phase.RUNNING:
        sight.lost.append((node.name, "its ranks are gone"))


def _listed(sight: Sight, job: Job, gang: GangReport, node: Node) -> None:
    living = ready = stopped = False
    ready = True
    for rank in gang.ranks:
        state = rank.state
        if state is RankState.PREPARING:
            ready = False
        if state not in ENDED_RANK:
            living = True
        elif rank.exit_code is not None:
            sight.exits.append((rank.rank, rank.exit_code))
        if state is not RankState.SUCCEEDED:
            sight.done = False
        if state is RankState.FAILED and sight.failed is None:
            sight.failed = (rank.rank, rank.exit_code, node.name)
        stopped = stopped or state is RankState.STOPPED
    if not ready:
        sight.ready = False
        sight.unready[node.name] = gang.hindrance
    if living:
        sight.living.append(node.name)
        sight.acknowledged = sight.acknowledged and gang.acknowledged
    if stopped:
        sight.lost.append((node.name, "its agent stopped the ranks"))
        sight.ready = False
    _saved(sight, job, gang)


def _saved(sight: Sight, job: Job, gang: GangReport) -> None:
    """Take in what the node has saved. Of nodes that save each for itself the gang has what the least of them has."""
    torn = known_torn(job, gang)
    work, manifest = (job.decision.saved_work_ms, "") if torn else (gang.saved_work_ms, gang.manifest)
    known = sight.saved_work_ms
    if known is not None and bool(manifest) == bool(sight.manifest):
        better = work > known if manifest else work < known
    else:
        better = known is None or manifest != ""
    if better:
        sight.saved_work_ms, sight.saved_at_ms = work, gang.saved_at_ms
        sight.manifest, sight.step = manifest, gang.step
