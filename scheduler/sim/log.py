"""The decision log: one JSON object for everything that happens, in order, for readers that know none of this code.

``line_of`` turns an event of the journal into its line; what the journal does not tell (the fleet, submissions, edits,
outages) has a function of its own. ``t`` is in seconds from the start of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.core.types import Event, EventKind, JobSpec, NodeIntent

Line = dict[str, Any]
Writer = Callable[[Line], None]


class Log:
    """Passes lines on to its writers, times turned into seconds of the run."""

    def __init__(self, start_ms: int, writers: Sequence[Writer]) -> None:
        self._start_ms = start_ms
        self._writers = tuple(writers)

    def seconds(self, at_ms: int) -> float:
        """A point in time as the log tells it: whole seconds as an integer."""
        whole, rest = divmod(at_ms - self._start_ms, 1000)
        return whole if rest == 0 else whole + rest / 1000

    def write(self, at_ms: int, kind: str, **fields: Any) -> None:
        line = {"t": self.seconds(at_ms), "kind": kind, **fields}
        for writer in self._writers:
            writer(line)

    def fleet(
        self, at_ms: int, hosts: Sequence[NodeIntent], quota: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        rows = [
            {
                "host": host.name,
                "az": host.az,
                "rack": host.rack,
                "gpu_type": host.gpu_type,
                "gpus": host.gpus,
                "spot": host.spot,
            }
            for host in hosts
        ]
        self.write(at_ms, "fleet", hosts=rows, quota=quota, settings=settings)

    def submit(self, at_ms: int, spec: JobSpec, state: str, reason: str | None) -> None:
        self.write(
            at_ms,
            "submit",
            job=spec.id,
            team=spec.team,
            gpus=spec.gpus,
            gpu_type=spec.gpu_type,
            priority=f"P{spec.priority}",
            max_runtime=self.duration(spec.max_runtime_ms),
            hint=spec.hint.value,
            spot_ok=spec.checkpoint is not None if spec.spot_ok is None else spec.spot_ok,
            state=state,
            reason=reason,
        )

    @staticmethod
    def duration(length_ms: int) -> float:
        """A length of time in seconds."""
        return length_ms // 1000 if length_ms % 1000 == 0 else length_ms / 1000

    def event(self, event: Event) -> None:
        """Write the line of a journal event; those that the log tells in another way have none."""
        fields = _FIELDS.get(event.kind)
        if fields is not None:
            self.write(event.at_ms, event.kind.value, **fields(self, event))


def _attempt(event: Event) -> Line:
    return {"job": event.job, "attempt": event.attempt}


def _stop(log: Log, event: Event) -> Line:
    deadline_ms = event.detail.get("deadline_ms")
    return {
        **_attempt(event),
        "cause": event.detail["cause"],
        "for": event.detail.get("for"),
        "deadline": None if deadline_ms is None else log.seconds(deadline_ms),
    }


def _hold(log: Log, event: Event) -> Line:
    start_ms = event.detail.get("start_ms")
    return {
        "job": event.job,
        "hosts": event.detail.get("hosts", []),
        "start": None if start_ms is None else log.seconds(start_ms),
    }


_FIELDS: dict[EventKind, Callable[[Log, Event], Line]] = {
    EventKind.BIND: lambda _, e: {**_attempt(e), "gpus": e.detail["gpus"], "fence": e.detail["fence"]},
    EventKind.START: lambda _, e: _attempt(e),
    EventKind.STOP: _stop,
    EventKind.CHECKPOINT: lambda log, e: {**_attempt(e), "work_s": log.duration(e.detail["work_ms"])},
    EventKind.EXIT: lambda _, e: {**_attempt(e), "rank": e.detail["rank"], "code": e.detail["code"]},
    EventKind.RELEASE: lambda _, e: {**_attempt(e), "gpus": e.detail["gpus"]},
    EventKind.END: lambda _, e: {**_attempt(e), "state": e.detail["state"]},
    EventKind.RESERVE: _hold,
    EventKind.UNRESERVE: _hold,
    EventKind.REASON: lambda _, e: {"job": e.job, "reason": e.detail["reason"], "detail": e.detail},
    EventKind.LEADER: lambda _, e: {"fence": e.detail["fence"]},
}
"""HOST and GPU are missing: what a person sees of a host also depends on what on-call asked, see ``world``."""
