"""One job in the snapshot: the wish, the decision, and its place in the indexes."""

from __future__ import annotations

from scheduler.core.quota import Branch
from scheduler.core.types import JobDecision, JobIntent, JobSpec, Phase, Reason, Slice
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


class Job:
    """A job with its wish and the decision about it. ``decision`` is never None: ``NEW`` where none was made."""

    __slots__ = ("_intent", "decision", "group", "held", "id", "key", "leaf", "parked", "shape")

    def __init__(self, job: str) -> None:
        self.id = job
        self._intent: JobIntent | None = None
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
    def spec(self) -> JobSpec:
        return self.intent.spec

    @property
    def phase(self) -> Phase:
        return self.decision.phase

    @property
    def priority(self) -> int:
        return self.intent.spec.priority
