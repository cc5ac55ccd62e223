"""A job's history as a person reads it: its attempts, and in each of them what happened. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from portal.views.words import duration_words, gpu_hours_words
from scheduler.core.types import EventKind


class Recorded(Protocol):
    """What is read of a ``scheduler.models.JobEvent``."""

    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def attempt(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def detail(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Whom:
    """The job for whose sake another one was stopped. ``job`` and ``name`` are None where the reader may not know."""

    job: str | None
    name: str | None
    team: str
    priority: int


@dataclass(frozen=True, slots=True)
class Line:
    """One event in words. ``tone`` is the state whose colour marks it; empty for a neutral one."""

    at: datetime
    words: str
    tone: str = ""
    whom: Whom | None = None


@dataclass(slots=True)
class Attempt:
    """One attempt. ``number`` 0 is the time before the first one. Times are None for what has not happened.

    ``waited_since`` is when the wait that led to it began; ``freed`` when its GPUs were given back. ``lost_ms`` is the
    useful work of each of its GPUs that its end cost, None while that is not known.
    """

    number: int
    waited_since: datetime
    bound: datetime | None = None
    started: datetime | None = None
    stop_asked: datetime | None = None
    freed: datetime | None = None
    gpus: int = 0
    hosts: int = 0
    cause: str = ""
    whom: Whom | None = None
    lost_ms: int | None = None
    lines: list[Line] = field(default_factory=list)

    @property
    def lost_gpu_ms(self) -> int:
        return (self.lost_ms or 0) * self.gpus

    def spans(self, now: datetime) -> list[tuple[str, datetime, datetime]]:
        """What it spent its time on: (state, from, to), in order, without gaps."""
        marks = [
            ("pending", self.waited_since),
            ("starting", self.bound),
            ("running", self.started),
            ("stopping", self.stop_asked),
        ]
        known = [(name, at) for name, at in marks if at is not None]
        ends = [at for _, at in known[1:]] + [self.freed or now]
        return [(name, start, max(start, end)) for (name, start), end in zip(known, ends, strict=True)]


CAUSES = {
    "preempt": "preempted by a job of higher priority",
    "reclaim": "stopped so that a team gets its share back",
    "spot": "its spot host is being taken away",
    "drain": "its host is being drained",
    "repair": "moved so that a larger gang fits",
    "cancel": "cancelled",
    "time_limit": "time limit reached",
    "node_failure": "a host was lost",
    "rank_failure": "a rank failed",
    "start_timeout": "not every rank was ready in time",
}
_STEP = re.compile(r"/a\d+-s(\d+)/[^/]+$", re.ASCII)
UNPLANNED = frozenset({"node_failure", "rank_failure", "start_timeout"})
"""Causes that stop an attempt without asking it."""


def failure(history: Sequence[Attempt]) -> str:
    """Why a job failed in its last attempt; empty where no cause was recorded."""
    last = max(history, key=lambda attempt: attempt.number)
    return CAUSES.get(last.cause, "")


def attempts(
    submitted: datetime, events: Iterable[Recorded], others: Mapping[str, Whom] | None = None
) -> list[Attempt]:
    """The attempts of a job, oldest first; the last one may be a wait that has led to none yet.

    ``others`` are the jobs for whose sake this one was stopped, by id, as far as the reader may know them.
    """
    found, over = [Attempt(0, submitted)], False
    for event in events:
        _note(found[-1], event, others or {})
        line = _line(event, found[-1])
        if line is not None:
            found[-1].lines.append(line)
        if event.kind == EventKind.RELEASE:
            found[-1].freed = event.at
            if not over:
                found.append(Attempt(0, event.at))
        elif event.kind == EventKind.END:
            over = True
            _end(found, event)
    return found


def _note(now: Attempt, event: Recorded, others: Mapping[str, Whom]) -> None:
    """Take in what an event tells of the attempt."""
    if event.kind == EventKind.BIND:
        now.number, now.bound = event.attempt, event.at
        held = _held(event.detail)
        now.gpus, now.hosts = sum(len(indices) for indices in held.values()), len(held)
    elif event.kind == EventKind.START:
        now.started = event.at
    elif event.kind == EventKind.STOP:
        now.stop_asked = now.stop_asked or event.at
        now.cause, now.whom = str(event.detail.get("cause")), others.get(str(event.detail.get("for")))
    elif event.kind == EventKind.RELEASE:
        lost = event.detail.get("lost_ms")
        now.lost_ms = lost if isinstance(lost, int) else None


@dataclass(frozen=True, slots=True)
class Lost:
    """What all stops of a job cost together, and how many of them cost something."""

    gpu_ms: int
    stops: int


def lost(history: Iterable[Attempt]) -> Lost:
    costs = [attempt.lost_gpu_ms for attempt in history if attempt.lost_gpu_ms]
    return Lost(sum(costs), len(costs))


def beneficiaries(events: Iterable[Recorded]) -> set[str]:
    """The ids of the jobs for whose sake this one was stopped."""
    return {str(event.detail["for"]) for event in events if event.kind == EventKind.STOP and event.detail.get("for")}


def _end(found: list[Attempt], event: Recorded) -> None:
    """The job is over: a wait that was opened by the release just before it never took place."""
    if len(found) > 1 and found[-1].bound is None:
        empty = found.pop()
        found[-1].lines.extend(empty.lines)
    last = found[-1]
    last.freed = last.freed or event.at


def _held(detail: dict[str, Any]) -> dict[str, list[int]]:
    gpus = detail.get("gpus")
    return gpus if isinstance(gpus, dict) else {}


def _line(event: Recorded, attempt: Attempt) -> Line | None:
    detail = event.detail
    if event.kind == EventKind.BIND:
        got = f"Got {_count(attempt.gpus, 'GPU')} on {_count(attempt.hosts, 'host')}"
        return Line(event.at, got + _resumes(detail), "starting")
    if event.kind == EventKind.START:
        return Line(event.at, "Every rank is ready: released to run", "running")
    if event.kind == EventKind.STOP:
        asked = "Stopped" if attempt.cause in UNPLANNED else "Asked to stop"
        words = f"{asked}: {CAUSES.get(attempt.cause, attempt.cause)}{_hindrances(detail)}"
        return Line(event.at, words, "stopping", attempt.whom)
    if event.kind == EventKind.CHECKPOINT:
        at = f" at step {detail['step']}" if detail.get("step") else ""
        return Line(event.at, f"Checkpoint complete{at}{_saved(detail)}")
    if event.kind == EventKind.TORN:
        rest = "the one before it counts" if detail.get("instead") else "there is none before it"
        return Line(event.at, f"Its newest checkpoint is torn ({detail.get('why')}): {rest}", "failed")
    if event.kind == EventKind.EXIT:
        tone = "" if detail.get("code") == 0 else "failed"
        return Line(event.at, f"Rank {detail.get('rank')} exited with code {detail.get('code')}{_on(event)}", tone)
    if event.kind == EventKind.RELEASE:
        return _release(event, attempt)
    if event.kind == EventKind.END:
        state = str(detail.get("state", detail.get("phase", ""))).lower()
        return Line(event.at, f"Ended: {state}", state)
    return None


def _release(event: Recorded, attempt: Attempt) -> Line:
    words = "Gave its GPUs back"
    if attempt.lost_ms:
        factors = f"{duration_words(attempt.lost_ms)} × {_count(attempt.gpus, 'GPU')}"
        lost_words = f"{factors} = {gpu_hours_words(attempt.lost_gpu_ms)}"
        return Line(event.at, f"{words}. Lost {lost_words}", "failed", attempt.whom)
    if attempt.lost_ms == 0 and attempt.started is not None and attempt.cause:
        return Line(event.at, f"{words}. Nothing was lost: its work was saved")
    return Line(event.at, words)


def _resumes(detail: dict[str, Any]) -> str:
    """What it is to resume from. The address of a checkpoint ends in ``a<attempt>-s<step>/manifest.json``."""
    found = _STEP.search(str(detail.get("resume_from") or ""))
    return f", resumes from step {int(found[1])}" if found else ""


def _hindrances(detail: dict[str, Any]) -> str:
    """The hosts that were not ready, and what they said was in the way."""
    late = detail.get("unready")
    if not isinstance(late, dict) or not late:
        return ""
    return " (" + "; ".join(f"{node}: {why}" if why else str(node) for node, why in late.items()) + ")"


def _saved(detail: dict[str, Any]) -> str:
    work_ms = detail.get("work_ms")
    return f", {work_ms // 60_000} min of work saved" if isinstance(work_ms, int) and work_ms >= 60_000 else ""


def _on(event: Recorded) -> str:
    return f" on {event.node}" if event.node else ""


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
