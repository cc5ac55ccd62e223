"""Where everything was at an earlier moment, told again from the events. Pure.

A *state* is plain JSON, so that it can be kept as a frame and gone on from:
``{"jobs": {id: [phase, {node: [GPU indices]}]}, "hosts": {node: [health, why]}, "faulty": {node: [GPU indices]}}``.
Hosts that are READY and have no fault are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core.types import EventKind, Health

State = dict[str, dict[str, Any]]


def empty() -> State:
    return {"jobs": {}, "hosts": {}, "faulty": {}}


def tell(state: State, kind: str, job: str | None, node: str, detail: Mapping[str, Any]) -> None:
    """Bring ``state`` up to one event; events come in the order of their revisions and positions."""
    if job is not None:
        _tell_of_job(state["jobs"], kind, job, detail)
    elif kind == EventKind.HOST:
        if detail["state"] == Health.READY:
            state["hosts"].pop(node, None)
        else:
            state["hosts"][node] = [detail["state"], detail.get("why", "")]
    elif kind == EventKind.GPU and detail["state"] in ("FAULTY", "OK"):
        faulty = set(state["faulty"].pop(node, ()))
        faulty = faulty | {detail["gpu"]} if detail["state"] == "FAULTY" else faulty - {detail["gpu"]}
        if faulty:
            state["faulty"][node] = sorted(faulty)


def _tell_of_job(jobs: dict[str, Any], kind: str, job: str, detail: Mapping[str, Any]) -> None:
    if kind == EventKind.BIND:
        jobs[job] = [detail["phase"], detail["gpus"]]
    elif kind == EventKind.RELEASE:
        jobs.pop(job, None)
    elif job in jobs and "phase" in detail:
        jobs[job][0] = detail["phase"]
