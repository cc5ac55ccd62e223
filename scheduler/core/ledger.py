"""Who holds what: GPUs, CPUs, memory and scratch of the nodes, and the use that the quota tree is charged with."""

from __future__ import annotations

from scheduler.core.job import Job, mask_of
from scheduler.core.quota import Branch, Quota
from scheduler.core.rows import Rows
from scheduler.core.topology import Node, Topology
from scheduler.core.types import JobSpec, QuotaTree, Usage
from scheduler.core.usage import SCALE_BITS, Fading


class Ledger:
    """Enters gangs when they are bound and strikes them out when they are gone. ``holding`` are those entered;
    ``running`` too, by GPU type and team."""

    def __init__(self, topology: Topology, rows: Rows) -> None:
        self.quota = Quota()
        self.fading = Fading(86_400_000)
        self.holding: dict[str, Job] = {}
        self.running: dict[str, dict[Branch, dict[str, Job]]] = {}
        self.nodes: dict[str, Node] = {}
        self._topology = topology
        self._rows = rows

    def node(self, name: str) -> Node:
        """The node of that name, registered or not: decisions may arrive before the inventory."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name)
        return node

    def enter(self, job: Job, since_ms: int) -> None:
        """The job holds its allocation from ``since_ms`` on."""
        decision, spec = job.decision, job.spec
        job.held = decision.allocation
        job.leaf = leaf = self.quota.leaf(spec.team)
        self.holding[job.id] = job
        self._file(job, leaf)
        for part in decision.allocation:
            self._fill(self.node(part.node), job.id, mask_of(part.gpus), spec)
        self._charge(leaf, decision.gpu_type, spec, 1, since_ms)

    def strike(self, job: Job, until_ms: int) -> None:
        """The job holds nothing any more, since ``until_ms``."""
        spec = job.spec
        for part in job.held:
            self._empty(self.node(part.node), job.id, spec)
        assert job.leaf is not None
        self._charge(job.leaf, job.decision.gpu_type, spec, -1, until_ms)
        del self.holding[job.id]
        by_team = self.running[job.decision.gpu_type]
        del by_team[job.leaf][job.id]
        if not by_team[job.leaf]:
            del by_team[job.leaf]
        job.held = ()
        job.leaf = None

    def _file(self, job: Job, leaf: Branch) -> None:
        self.running.setdefault(job.decision.gpu_type, {}).setdefault(leaf, {})[job.id] = job

    def _charge(self, leaf: Branch, gpu_type: str, spec: JobSpec, sign: int, at_ms: int) -> None:
        gpus = sign * spec.gpus
        self.quota.charge(leaf, gpu_type, gpus, gpus * spec.cpu_per_rank, gpus * spec.memory_per_rank_gb, spec.priority)
        self.quota.remember(leaf, gpu_type, -gpus * self.fading.grown(at_ms))

    def _fill(self, node: Node, job: str, mask: int, spec: JobSpec) -> None:
        node.jobs[job] = mask
        node.held |= mask
        if spec.scratch_gb or spec.cpu_per_rank or spec.memory_per_rank_gb:
            ranks = mask.bit_count()
            node.cpus_free -= ranks * spec.cpu_per_rank
            node.memory_free -= ranks * spec.memory_per_rank_gb
            node.scratch_free -= spec.scratch_gb
        self._rows.stale.add(node)
        self._topology.refile(node)

    def _empty(self, node: Node, job: str, spec: JobSpec) -> None:
        mask = node.jobs.pop(job)
        node.held &= ~mask
        ranks = mask.bit_count()
        node.cpus_free += ranks * spec.cpu_per_rank
        node.memory_free += ranks * spec.memory_per_rank_gb
        node.scratch_free += spec.scratch_gb
        self._rows.stale.add(node)
        self._topology.refile(node)

    def replant(self, tree: QuotaTree | None) -> None:
        """Put another tree in force. What runs is charged to it anew; a team that stays keeps its recent use."""
        past = {name: branch.past for name, branch in self.quota.by_name.items() if not branch.children}
        self._recharge(Quota(tree))
        for name, amounts in past.items():
            branch = self.quota.by_name.get(name)
            if branch is not None and not branch.children:
                for gpu_type, amount in amounts.items():
                    self.quota.remember(branch, gpu_type, amount - branch.past.get(gpu_type, 0))

    def fade(self, fading: Fading) -> None:
        """Count recent use by another clock: what is over is forgotten, what runs is counted from its bind on."""
        self.fading = fading
        self._recharge(Quota(self.quota.tree))

    def over(self) -> dict[str, dict[str, int]]:
        """By team and type the accumulated use of what holds nothing any more, unfaded: it changes when a gang ends."""
        amounts = {
            leaf.name: dict(leaf.past) for leaf in self.quota.by_name.values() if not leaf.children and leaf.past
        }
        for job in self.holding.values():
            assert job.leaf is not None
            mine = amounts[job.leaf.name]
            mine[job.decision.gpu_type] += job.spec.gpus * self.fading.grown(job.decision.bound_ms or 0)
        return {team: kept for team, types in amounts.items() if (kept := {k: n for k, n in types.items() if n})}

    def faded(self, over: dict[str, dict[str, int]], now_ms: int) -> dict[str, dict[str, int]]:
        """Such amounts as they count at ``now_ms``; what has faded away is left out."""
        shrink = self.fading.shrink(now_ms)
        small = {team: {k: n * shrink >> SCALE_BITS for k, n in types.items()} for team, types in over.items()}
        return {team: kept for team, types in small.items() if (kept := {k: n for k, n in types.items() if n > 0})}

    def resume(self, usage: Usage) -> None:
        """Go on with the use that another process, or this one before, had counted of what is over."""
        self._recharge(Quota(self.quota.tree))
        grown = self.fading.grown(usage.at_ms)
        for team, types in usage.over.items():
            leaf = self.quota.by_name.get(team)
            if leaf is not None and not leaf.children:
                for gpu_type, amount in types.items():
                    self.quota.remember(leaf, gpu_type, amount * grown >> SCALE_BITS)

    def _recharge(self, quota: Quota) -> None:
        self.quota = quota
        self.running = {}
        for job in self.holding.values():
            job.leaf = quota.leaf(job.spec.team)
            self._file(job, job.leaf)
            self._charge(job.leaf, job.decision.gpu_type, job.spec, 1, job.decision.bound_ms or 0)
