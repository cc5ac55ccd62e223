"""Who waits: jobs that could start now, gathered by team, priority and shape, each group in order of age.

What does not fit for one job of a shape fits for none of it, so that a plan's cost follows the number of shapes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from scheduler.core.types import Hint, JobSpec, NodeIntent, NvLink, Policy, Reason

NOTICE_MS = {"aws": 120_000, "gcp": 30_000, "azure": 30_000}
"""How long before it takes a spot host a provider says so."""

AgeKey = tuple[int, str, int, str]


class Shape:
    """What a gang asks of the fleet. Equal shapes are one object (see ``Waiting.shape``).

    ``patient``: it would take a wider domain, but not yet; its ``hint`` is that of now.
    """

    __slots__ = ("avoid", "cpu", "gpu_type", "gpus", "hint", "memory", "nvlink", "patient", "scratch", "spot")

    def __init__(self, spec: JobSpec, avoid: tuple[str, ...], spot: frozenset[str], patient: bool = False) -> None:
        self.gpus = spec.gpus
        self.gpu_type = spec.gpu_type
        self.hint = Hint.REQUIRE_SAME_RACK if patient else spec.hint
        self.nvlink = spec.nvlink
        self.patient = patient
        self.cpu = spec.cpu_per_rank
        self.memory = spec.memory_per_rank_gb
        self.scratch = spec.scratch_gb
        self.spot = spot
        self.avoid = avoid

    def key(self) -> tuple[object, ...]:
        return (
            self.gpus,
            self.gpu_type,
            self.hint,
            self.cpu,
            self.memory,
            self.scratch,
            self.spot,
            self.avoid,
            self.nvlink,
            self.patient,
        )


class Relaxed:
    """A shape with one of its wishes taken back."""

    @staticmethod
    def of(
        shape: Shape,
        *,
        spot: bool = False,
        demands: bool = False,
        nvlink: bool = False,
        hint: Hint | None = None,
        avoid: tuple[str, ...] = (),
    ) -> Shape:
        twin = object.__new__(Shape)
        twin.gpus, twin.gpu_type = shape.gpus, shape.gpu_type
        twin.hint = shape.hint if hint is None else hint
        twin.cpu, twin.memory, twin.scratch = (0, 0, 0) if demands else (shape.cpu, shape.memory, shape.scratch)
        twin.spot = frozenset({"aws", "gcp", "azure"}) if spot else shape.spot
        twin.avoid = avoid
        twin.nvlink = NvLink.ANY if nvlink else shape.nvlink
        twin.patient = False
        return twin


_NO_SPOT: frozenset[str] = frozenset()
_ANY_SPOT = frozenset(NOTICE_MS)


def spot_providers(spec: JobSpec) -> frozenset[str]:
    """The providers on whose spot hosts a job may run: its checkpoint fits inside their notice."""
    if spec.spot_ok is False or spec.checkpoint is None:
        return _NO_SPOT
    takes = spec.checkpoint.takes_ms
    if takes <= 30_000:
        return _ANY_SPOT
    return frozenset(provider for provider, notice in NOTICE_MS.items() if takes <= notice)


def suits(node: NodeIntent, shape: Shape) -> bool:
    """Whether the gang may use hosts of this kind."""
    linked = node.nvlink or shape.nvlink is not NvLink.REQUIRE
    return linked and (node.spot is None or node.spot in shape.spot)


_TAIL = re.compile(r"^(.*?)(\d*)(\D?)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts beside age in the order of the jobs of one team and class.

    A job is treated as if it had come later by ``length`` times its limit, at most ``most_ms`` (0: however long), and
    earlier by ``size_ms`` for each of its GPUs, up to ``GPUS_WEIGHED`` of them.
    """

    length: Fraction = Fraction(0)
    most_ms: int = 0
    size_ms: int = 0

    @classmethod
    def of(cls, policy: Policy) -> Weights:
        """``fifo`` and ``easy`` go by age alone."""
        if policy.order != "gangway":
            return cls()
        return cls(policy.length_weight, policy.length_most_ms, policy.size_ms)

    def shift(self, spec: JobSpec) -> Fraction:
        """How many milliseconds later the job counts as having come."""
        late = self.length * spec.max_runtime_ms
        if self.most_ms:
            late = min(late, Fraction(self.most_ms))
        return late - self.size_ms * min(spec.gpus, GPUS_WEIGHED)


GPUS_WEIGHED = 128


def age_key(spec: JobSpec, weights: Weights) -> AgeKey:
    """Orders jobs of one team and class by age and ``weights``; then by name, ``a[9]`` first."""
    return spec.submitted_ms + round(weights.shift(spec)), *natural(spec.id)


def natural(name: str) -> tuple[str, int, str]:
    """Sorts names that differ in their last number by that number."""
    match = _TAIL.match(name)
    assert match is not None
    head, digits, tail = match.groups()
    return head, int(digits or 0), tail


class Group:
    """The waiting jobs of one team, priority and shape, oldest first, with keys and how long each may work.

    ``reasons`` counts the reasons they carry, ``explained_ms`` is when those were last looked at. ``asked_for`` is the
    job for which, at ``asked_ms``, nobody could be stopped.
    """

    __slots__ = (
        "asked_for",
        "asked_ms",
        "explained_ms",
        "jobs",
        "keys",
        "left_ms",
        "priority",
        "reasons",
        "shape",
        "team",
    )

    def __init__(self, team: str, priority: int, shape: Shape) -> None:
        self.team = team
        self.priority = priority
        self.shape = shape
        self.keys: list[AgeKey] = []
        self.jobs: list[str] = []
        self.left_ms: list[int] = []
        self.reasons: dict[Reason | None, int] = {}
        self.explained_ms = 0
        self.asked_for = ""
        self.asked_ms = 0

    def add(self, key: AgeKey, job: str, left_ms: int, reason: Reason | None) -> None:
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.jobs.insert(at, job)
        self.left_ms.insert(at, left_ms)
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def remove(self, key: AgeKey, reason: Reason | None) -> None:
        at = bisect_left(self.keys, key)
        del self.keys[at]
        del self.jobs[at]
        del self.left_ms[at]
        self._uncount(reason)

    def restate(self, old: Reason | None, new: Reason | None) -> None:
        """One of its jobs goes on waiting for another reason."""
        self._uncount(old)
        self.reasons[new] = self.reasons.get(new, 0) + 1

    def _uncount(self, reason: Reason | None) -> None:
        left = self.reasons[reason] - 1
        if left:
            self.reasons[reason] = left
        else:
            del self.reasons[reason]


class Waiting:
    """All groups, by (team, priority, shape) and by shape."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, int, Shape], Group] = {}
        self.by_shape: dict[Shape, dict[tuple[str, int, Shape], Group]] = {}
        self.weights = Weights()
        self._shapes: dict[tuple[object, ...], Shape] = {}

    def shape(self, spec: JobSpec, avoid: tuple[str, ...], patient: bool = False) -> Shape:
        """The one Shape object for what ``spec`` asks for now."""
        made = Shape(spec, avoid, spot_providers(spec), patient)
        return self._shapes.setdefault(made.key(), made)

    def add(self, spec: JobSpec, shape: Shape, key: AgeKey, left_ms: int, reason: Reason | None) -> Group:
        name = (spec.team, spec.priority, shape)
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(*name)
            self.by_shape.setdefault(shape, {})[name] = group
        group.add(key, spec.id, left_ms, reason)
        return group

    def remove(self, group: Group, key: AgeKey, reason: Reason | None) -> None:
        group.remove(key, reason)
        if not group.jobs:
            name = (group.team, group.priority, group.shape)
            del self.groups[name]
            named = self.by_shape[group.shape]
            del named[name]
            if not named:
                del self.by_shape[group.shape]

    def count_as_asked(self, now_ms: int) -> None:
        """Take it that nobody can be stopped for those who wait by now."""
        for group in self.groups.values():
            group.asked_for, group.asked_ms = group.jobs[0], now_ms
