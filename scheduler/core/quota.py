"""The quota tree at work: what each node holds, its ceilings, and the order in which its children are served.

A node's use is the sum of its children's. Gangs are charged from bind to confirmed release. All figures are integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from scheduler.core.types import QuotaNode, QuotaTree
from scheduler.core.usage import SCALE_BITS, Fading

CPU = "\0cpu"
MEMORY = "\0memory"
"""The resources beside GPU types that a dominant share may be of; no GPU type can be called so."""


class Branch:
    """One node of the tree. ``held`` maps a GPU type (or CPU, MEMORY) to what its jobs hold, ``by_class`` a priority
    class to GPUs. ``past`` is the accumulator of fading use (see ``usage``). ``path`` runs from it up to the root.

    ``closed`` marks a team that the tree no longer names while jobs of it run: nothing is added to it.
    """

    __slots__ = (
        "by_class",
        "children",
        "closed",
        "factor",
        "held",
        "name",
        "node",
        "parent",
        "past",
        "path",
        "recent",
        "weightless",
    )

    def __init__(self, node: QuotaNode, parent: Branch | None, closed: bool = False) -> None:
        self.node = node
        self.name = node.name
        self.parent = parent
        self.children: list[Branch] = []
        self.held: dict[str, int] = {}
        self.by_class: dict[int, int] = {}
        self.past: dict[str, int] = {}
        self.recent: dict[str, int] = {}
        self.factor = 1
        self.weightless = node.share <= 0
        self.closed = closed
        self.path: tuple[Branch, ...] = (self, *parent.path) if parent is not None else (self,)
        if parent is not None:
            parent.children.append(self)

    def within_floor(self, gpu_type: str, more: int) -> bool:
        """Whether the node would hold no more than its floor with so many GPUs more."""
        return self.held.get(gpu_type, 0) + more <= self.node.floor.get(gpu_type, 0)

    def below(self) -> Iterator[Branch]:
        """This branch and all beneath it."""
        yield self
        for child in self.children:
            yield from child.below()


class Quota:
    """The tree in force with everything that is charged to it."""

    def __init__(self, tree: QuotaTree | None = None) -> None:
        self.tree = tree if tree is not None else QuotaTree(open=True)
        self.root = Branch(QuotaNode(name=""), None)
        self.by_name: dict[str, Branch] = {}
        for node in self.tree.nodes:
            parent = self.by_name.get(node.parent, self.root) if node.parent is not None else self.root
            self.by_name[node.name] = Branch(node, parent)
        self._weigh()

    def _weigh(self) -> None:
        """Give siblings integer factors that stand to each other as one over their shares."""
        for branch in self.root.below():
            shares = [child.node.share for child in branch.children if not child.weightless]
            common = lcm(*(share.numerator for share in shares)) if shares else 1
            for child in branch.children:
                share = child.node.share
                child.factor = 1 if child.weightless else common // share.numerator * share.denominator

    def knows(self, team: str) -> bool:
        """Whether jobs of ``team`` may be taken in: it is a leaf of the tree, or the tree is open."""
        branch = self.by_name.get(team)
        if branch is None:
            return self.tree.open
        return not branch.closed and not branch.children

    def leaf(self, team: str) -> Branch:
        """The branch that a job of ``team`` is charged to; made where the tree is open, closed where it is not."""
        branch = self.by_name.get(team)
        if branch is None or branch.children:
            key = team if branch is None else "\0" + team
            branch = self.by_name.get(key)
            if branch is None:
                node = QuotaNode(name=team) if self.tree.open else QuotaNode(name=team, share=QuotaNode("").share * 0)
                branch = self.by_name[key] = Branch(node, self.root, closed=not self.tree.open)
                self._weigh()
        return branch

    def charge(self, leaf: Branch, gpu_type: str, gpus: int, cpus: int, memory: int, priority: int) -> None:
        """Add to the use of ``leaf`` and all above it; negative amounts take away."""
        for branch in leaf.path:
            held = branch.held
            held[gpu_type] = held.get(gpu_type, 0) + gpus
            if cpus:
                held[CPU] = held.get(CPU, 0) + cpus
            if memory:
                held[MEMORY] = held.get(MEMORY, 0) + memory
            by_class = branch.by_class
            by_class[priority] = by_class.get(priority, 0) + gpus

    def remember(self, leaf: Branch, gpu_type: str, amount: int) -> None:
        """Add ``amount`` (GPUs times ``Fading.grown``) to the fading use of ``leaf`` and all above it."""
        for branch in leaf.path:
            branch.past[gpu_type] = branch.past.get(gpu_type, 0) + amount

    def refresh(self, fading: Fading, now_ms: int) -> None:
        """Bring ``recent`` of every branch to ``now_ms``: GPUs in fixed point, what is held now included."""
        shrink = fading.shrink(now_ms)
        for branch in self.root.below():
            held = branch.held
            branch.recent = {
                kind: max(0, (held.get(kind, 0) << SCALE_BITS) + (past * shrink >> SCALE_BITS))
                for kind, past in branch.past.items()
            }

    @staticmethod
    def barrier(leaf: Branch, gpu_type: str, gpus: int, priority: int) -> Branch | None:
        """The lowest branch whose ceiling or class cap forbids ``gpus`` more, None if none does."""
        for branch in leaf.path:
            if branch.closed:
                return branch
            node = branch.node
            ceiling = node.ceiling.get(gpu_type)
            if ceiling is not None and branch.held.get(gpu_type, 0) + gpus > ceiling:
                return branch
            cap = node.class_caps.get(priority)
            if cap is not None and branch.by_class.get(priority, 0) + gpus > cap:
                return branch
        return None


class Scale:
    """Measures a branch's dominant use above its floors: the more, the later it is served.

    Use of each resource is weighed by what the fleet has of it, through the least common multiple of the capacities,
    so that two branches compare as integers.
    """

    def __init__(self, capacity: dict[str, int]) -> None:
        present = {kind: amount for kind, amount in capacity.items() if amount > 0}
        common = lcm(*present.values()) if present else 1
        self._weight = {kind: common // amount for kind, amount in present.items()}

    def key(self, branch: Branch) -> tuple[bool, int]:
        """Sorts the children of one parent; a branch of weight 0 above its floor comes after all others."""
        floor = branch.node.floor
        recent = branch.recent
        weight = self._weight
        most = 0
        above = False
        for kind, held in branch.held.items():
            use = recent.get(kind, 0) if recent else 0
            beyond = held - floor.get(kind, 0) if floor else held
            if beyond > 0:
                above = True
                use += beyond << SCALE_BITS
            if use:
                use *= weight.get(kind, 0)
                if use > most:
                    most = use
        if branch.weightless:
            return above or not floor, most
        return False, most * branch.factor
