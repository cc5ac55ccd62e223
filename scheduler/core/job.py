"""One job in the snapshot: the wish, the decision, and its place in the indexes."""

from __future__ import annotations

from scheduler.core.quota import Branch
from scheduler.core.types import Assignment, JobDecision, JobIntent, JobSpec, Phase, Reason, Slice
from scheduler.core.waiting import AgeKey, Group, Shape

NEW = JobDecision()
"""The decision of a job about which none has been made yet."""

_MASKS: dict[tuple[int, ...], int] = {}


def mask_of(gpus: tuple[int, ...]) -> int:
    """The bitmask of GPU indices."""
    mask = _MASKS.get(gpus)
    if mask is None:
        mask = _MASKS[gpus] = sum(1 << gpu for gpu in gpus)
    return mask


class Layout:
    """How a gang lies on its nodes: each node's place in the allocation with the ranks on it, and all nodes."""

    __slots__ = ("allocation", "assigned", "nodes", "places")

    def __init__(self, allocation: tuple[Slice, ...]) -> None:
        self.allocation = allocation
        self.nodes = tuple(part.node for part in allocation)
        self.assigned: dict[str, tuple[JobDecision, JobIntent, str, Assignment]] = {}
        """What each node was last told, and what that was made from (see ``orders``)."""
        self.places: dict[str, tuple[int, Slice, tuple[int, ...]]] = {}
        first = 0
        for at, part in enumerate(allocation):
            self.places[part.node] = (at, part, tuple(range(first, first + len(part.gpus))))
            first += len(part.gpus)


class Job:
    """A job with its wish and the decision about it. ``decision`` is never None: ``NEW`` where none was made."""

    __slots__ = ("_intent", "_layout", "decision", "group", "held", "id", "key", "leaf", "parked", "shape", "spec")

    def __init__(self, job: str) -> None:
        self.id = job
        self._intent: JobIntent | None = None
        self.spec: JobSpec
        """The intent's; there is none before the intent."""
        self._layout = Layout(())
        self.decision: JobDecision = NEW
        self.held: tuple[Slice, ...] = ()
        self.leaf: Branch | None = None
        self.group: Group | None = None
        self.parked: Reason | None = None
        self.shape: Shape | None = None
        self.key: AgeKey | None = None

    @property
    def intent(self) -> JobIntent:
        assert self._intent is not None, f"nobody wishes for {self.id}"
        return self._intent

    @property
    def wished(self) -> bool:
        """Whether there is an intent."""
        return self._intent is not None

    def wish(self, intent: JobIntent) -> None:
        """Take this for the intent."""
        self._intent, self.spec = intent, intent.spec

    def unwish(self) -> None:
        """Nobody wants anything of the job any more."""
        self._intent = None

    @property
    def phase(self) -> Phase:
        return self.decision.phase

    @property
    def layout(self) -> Layout:
        """The layout of the decision's allocation, worked out once an attempt."""
        if self._layout.allocation is not self.decision.allocation:
            self._layout = Layout(self.decision.allocation)
        return self._layout

    @property
    def priority(self) -> int:
        return self.spec.priority
