"""Reading a ``submit``: one job, or the elements of an array."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nodes.agent.simulated import Behaviour
from scheduler.core.types import CheckpointSpec, Hint, JobSpec, NvLink, OnLoss
from scheduler.sim.events import Request
from scheduler.sim.reading import Bad, Fields, at_least, duration, flag, integer, one_of, one_or_list, text

HOUR_MS = 3_600_000
DEFAULT_CHECKPOINT = CheckpointSpec(every_ms=HOUR_MS // 2, takes_ms=20_000)
PRIORITIES = ("P0", "P1", "P2", "P3")

_hint = one_of(hint.value for hint in Hint)
_nvlink = one_of(wish.value for wish in NvLink)
_on_loss = one_of(choice.value for choice in OnLoss)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a ``submit`` asks for. In ``spec.after`` the names are as written: of jobs and of arrays."""

    name: str
    requests: tuple[Request, ...]
    is_array: bool


def read_submission(fields: Fields, at_ms: int, team: Callable[[Any], str], name: str | None = None) -> Submission:
    """The job under ``submit``.

    Args:
        at_ms: the moment of the submission, since the epoch.
        team: reads a team.
        name: the job's name where the key ``job`` does not give it (``submit_many``).

    Raises:
        NotAScenario: a key or value is unknown.
    """
    called = fields.take("job", text) if name is None else name
    count = fields.take("count", at_least(1), None)
    throttle = fields.take("throttle", at_least(1), 0)
    if throttle and count is None:
        fields.refuse("is for an array, which has a count", "throttle")
    key = fields.take("key", text, None)
    body = json.dumps(_body(fields), sort_keys=True, default=str)
    spec, behaviour = _read_spec(fields, called, at_ms, team), _read_behaviour(fields)
    fields.done()
    if count is None:
        return Submission(called, (Request(spec, behaviour, key, body),), False)
    elements = tuple(
        Request(
            replace(spec, id=f"{called}[{n}]", name=f"{called}[{n}]", array=called, throttle=throttle),
            behaviour,
            key and f"{key}[{n}]",
            body,
        )
        for n in range(count)
    )
    return Submission(called, elements, True)


def _body(fields: Fields) -> dict[str, Any]:
    """What two requests with one idempotency key must have alike: all but the file's own name for the job."""
    return {key: value for key, value in fields.written.items() if key not in ("job", "key")}


def _read_spec(fields: Fields, name: str, at_ms: int, team: Callable[[Any], str]) -> JobSpec:
    return JobSpec(
        id=name,
        name=name,
        team=fields.take("team", team),
        gpus=fields.take("gpus", at_least(1)),
        gpu_type=fields.take("gpu_type", text, "H100"),
        priority=PRIORITIES.index(fields.take("priority", one_of(PRIORITIES), "P2")),
        max_runtime_ms=fields.take("max_runtime", duration, 24 * HOUR_MS),
        submitted_ms=at_ms,
        hint=Hint(fields.take("hint", _hint, Hint.PREFER_SAME_RACK.value)),
        cpu_per_rank=fields.take("cpu_per_rank", at_least(0), 0),
        memory_per_rank_gb=fields.take("memory_per_rank_gb", at_least(0), 0),
        scratch_gb=fields.take("scratch_disk_gb", at_least(0), 0),
        checkpoint=_read_checkpoint(fields),
        on_preemption=OnLoss(fields.take("on_preemption", _on_loss, OnLoss.RESUME.value)),
        on_node_failure=OnLoss(fields.take("on_node_failure", _on_loss, OnLoss.RESUME.value)),
        max_restarts=fields.take("max_restarts", at_least(0), 20),
        spot_ok=fields.take("spot_ok", flag, None),
        after=fields.take("after", one_or_list(text), ()),
        topology_wait_ms=fields.take("topology_wait", duration, None),
        movable=fields.take("movable", flag, True),
        nvlink=NvLink(fields.take("nvlink", _nvlink, NvLink.ANY.value)),
    )


def _read_behaviour(fields: Fields) -> Behaviour:
    return Behaviour(
        runtime_ms=fields.take("runtime", duration, HOUR_MS),
        start_takes_ms=fields.take("start_takes", duration, 0),
        exit_code=fields.take("exit_code", integer, 0),
    )


def _read_checkpoint(fields: Fields) -> CheckpointSpec | None:
    if "checkpoint" not in fields:
        return DEFAULT_CHECKPOINT
    if fields.written["checkpoint"] is None:
        fields.take("checkpoint", lambda _: None)
        return None
    inner = fields.nested("checkpoint")
    every_ms = inner.take("every", _positive_duration, DEFAULT_CHECKPOINT.every_ms)
    takes_ms = inner.take("takes", duration, DEFAULT_CHECKPOINT.takes_ms)
    inner.done()
    return CheckpointSpec(every_ms, takes_ms)


def _positive_duration(value: Any) -> int:
    length_ms = duration(value)
    if length_ms == 0:
        raise Bad("should be longer than 0s")
    return length_ms
