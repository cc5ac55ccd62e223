"""The order in which waiting jobs are tried.

Priority class first; then, from the root of the quota tree down, the child with the least weighted dominant use; then
age. A job that is passed over changes no one's use, so the walk goes on with the next one of the same team.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from heapq import heapify, heappop, heapreplace

from scheduler.core.quota import Branch, Scale
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import Policy
from scheduler.core.usage import SCALE_BITS
from scheduler.core.waiting import AgeKey, Group


class Lane:
    """The groups of one team and class (or of all, where shares do not count), merged by age."""

    __slots__ = ("_heap", "_serial")

    def __init__(self, groups: Iterable[Group]) -> None:
        self._heap = [(group.keys[0], serial, group, 0) for serial, group in enumerate(groups) if group.keys]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def key(self) -> AgeKey:
        return self._heap[0][0]

    @property
    def head(self) -> tuple[Group, str]:
        _, _, group, at = self._heap[0]
        return group, group.jobs[at]

    def placed(self) -> None:
        """The head has left its group: go on with the one that took its place."""
        self._go_on(0)

    def passed(self) -> None:
        """Go on behind the head."""
        self._go_on(1)

    def _go_on(self, by: int) -> None:
        _, serial, group, at = self._heap[0]
        at += by
        if at < len(group.keys):
            heapreplace(self._heap, (group.keys[at], serial, group, at))
        else:
            heappop(self._heap)

    def skipped(self, left_ms: int, kept: Container[str]) -> None:
        """Go on behind the head with the next one of its group that may work for less than ``left_ms``, or is kept."""
        _, _, group, at = self._heap[0]
        lefts, jobs = group.left_ms, group.jobs
        for after in range(at + 1, len(lefts)):
            if lefts[after] < left_ms or jobs[after] in kept:
                self._go_on(after - at)
                return
        heappop(self._heap)

    def dropped(self) -> None:
        """Pass over all the rest of the head's group."""
        heappop(self._heap)


class Walk:
    """Goes through the jobs of some groups in queue order. The caller says after each head what became of it."""

    def __init__(self, snapshot: Snapshot, policy: Policy, groups: Iterable[Group]) -> None:
        self._quota = snapshot.quota
        self._shares = policy.shares and policy.order == "gangway"
        self._scale = Scale(snapshot.capacity())
        self._keys: dict[Branch, tuple[bool, int]] = {}
        self._promised: dict[Branch, dict[str, int]] = {}
        by_class: dict[int, dict[Branch, list[Group]]] = {}
        for group in groups:
            priority = group.priority if policy.order == "gangway" else 0
            leaf = self._quota.leaf(group.team) if self._shares else self._quota.root
            by_class.setdefault(priority, {}).setdefault(leaf, []).append(group)
        self._classes = [
            {leaf: Lane(members) for leaf, members in by_class[priority].items()} for priority in sorted(by_class)
        ]
        self._lane: Lane | None = None
        self._leaf: Branch | None = None
        self._open: dict[Branch, set[Branch]] = {}
        if self._shares and self._classes:
            self._quota.refresh(snapshot.fading, snapshot.now_ms)
        self._enter()

    def _enter(self) -> None:
        """Open the ways down to the lanes of the class that is walked now."""
        self._open = {}
        if self._classes:
            for leaf in self._classes[0]:
                for branch in leaf.path[:-1]:
                    assert branch.parent is not None
                    self._open.setdefault(branch.parent, set()).add(branch)

    def head(self) -> tuple[Group, str] | None:
        """The next job to try and its group; None when all have been tried."""
        if self._lane is not None:
            if self._lane:
                return self._lane.head
            self._close()
        while self._classes:
            lanes = self._classes[0]
            if lanes:
                self._leaf = self._choose()
                self._lane = lanes[self._leaf]
                return self._lane.head
            del self._classes[0]
            self._enter()
        return None

    def _choose(self) -> Branch:
        branch = self._quota.root
        while branch in self._open:
            children = self._open[branch]
            if len(children) == 1:
                (branch,) = children
            else:
                branch = self._least(children)
        return branch

    def _least(self, children: set[Branch]) -> Branch:
        """The child with the least use; among equals the one whose oldest job is oldest."""
        keys = self._keys
        for child in children:
            if child not in keys:
                keys[child] = self._use(child)
        least = min(keys[child] for child in children)
        equal = [child for child in children if keys[child] == least]
        return equal[0] if len(equal) == 1 else min(equal, key=self._oldest)

    def _oldest(self, branch: Branch) -> AgeKey:
        children = self._open.get(branch)
        if children:
            return min(self._oldest(child) for child in children)
        return self._classes[0][branch].key

    def _use(self, branch: Branch) -> tuple[bool, int]:
        promised = self._promised.get(branch)
        if not promised:
            return self._scale.key(branch)
        kept = branch.recent
        branch.recent = dict(kept)
        for gpu_type, gpus in promised.items():
            branch.recent[gpu_type] = branch.recent.get(gpu_type, 0) + (gpus << SCALE_BITS)
        key = self._scale.key(branch)
        branch.recent = kept
        return key

    def _close(self) -> None:
        """Leave an exhausted lane, and every way that leads to no other."""
        assert self._leaf is not None
        del self._classes[0][self._leaf]
        for branch in self._leaf.path[:-1]:
            assert branch.parent is not None
            siblings = self._open[branch.parent]
            siblings.discard(branch)
            if siblings:
                break
            del self._open[branch.parent]
        self._lane = None

    def placed(self) -> None:
        """The head was bound: its team's use has risen."""
        assert self._lane is not None and self._leaf is not None
        self._lane.placed()
        self._use_changed(self._leaf)

    def promised(self, gpu_type: str, gpus: int) -> None:
        """The head was promised GPUs: it counts as if its team held them for the rest of the walk."""
        assert self._lane is not None and self._leaf is not None
        self._lane.passed()
        for branch in self._leaf.path:
            mine = self._promised.setdefault(branch, {})
            mine[gpu_type] = mine.get(gpu_type, 0) + gpus
        self._use_changed(self._leaf)

    def _use_changed(self, leaf: Branch) -> None:
        for branch in leaf.path:
            self._keys.pop(branch, None)
        if not self._lane:
            self._close()
        self._lane = None

    def passed(self) -> None:
        """The head cannot start now; others of its group may."""
        assert self._lane is not None
        self._lane.passed()

    def skipped(self, left_ms: int, kept: Container[str]) -> None:
        """Nobody of the head's group who works for as long as ``left_ms`` can start now, but for those who are kept."""
        assert self._lane is not None
        self._lane.skipped(left_ms, kept)

    def dropped(self) -> None:
        """Neither the head nor any other job of its group can start now."""
        assert self._lane is not None
        self._lane.dropped()


def ranked(snapshot: Snapshot, policy: Policy, now_ms: int) -> list[str]:
    """Waiting jobs in the order in which the next plan would try them, as if none of them found room."""
    walk = Walk(snapshot, policy, list(snapshot.waiting.groups.values()))
    order = []
    while (head := walk.head()) is not None:
        order.append(head[1])
        walk.passed()
    return order
