"""A request for a job, from JSON to the core's ``JobSpec``. The API, the web form and the command line all parse here.

Pure: what the answer depends on (the submitter's rights, the fleet's size) is handed in. Knows no Django.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from scheduler.core.patience import PREFERS
from scheduler.core.types import ANY_GPU_TYPE, CheckpointSpec, Hint, JobSpec, Launch, NvLink, OnLoss, Reason
from scheduler.fields import INVALID, FieldError, shown
from scheduler.job_fields import JOB, Priority

HOUR_MS = 3_600_000
MINUTE_MS = 60_000

NAME_MOST = 128
LATER_FIELDS: dict[str, Any] = {
    "topology_wait_ms": None,
    "nvlink": NvLink.ANY,
    "count": 0,
    "throttle": 0,
    "movable": True,
}
"""Fields that requests had not at first, with what they then meant: such a request still hashes as it did."""

CHECKPOINT_TAKES_MS = 20_000
"""What a checkpoint is taken to take until one of the job's own has been measured; half its interval at the most."""


@dataclass(frozen=True, slots=True)
class TeamRights:
    """What the submitter may do in one team (a leaf of the quota tree).

    ``ceilings`` holds the bounds on the way from the team up to the root, innermost first: (quota node, GPUs by type);
    a type that is not named is not bounded there.
    """

    may_submit: bool = True
    p0: bool = False
    ceilings: tuple[tuple[str, Mapping[str, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A valid request. ``body`` is what was sent, for the record; two requests that mean the same hash alike.

    ``count`` is how many jobs an array has; 0: it is a single job.
    """

    name: str
    team: str
    owner: str
    priority: int
    gpus: int
    gpu_type: str
    hint: Hint
    max_runtime_ms: int
    cpu_per_rank: int
    memory_per_rank_gb: int
    scratch_gb: int
    checkpoint: CheckpointSpec | None
    on_preemption: OnLoss
    on_node_failure: OnLoss
    max_restarts: int
    launch: Launch
    topology_wait_ms: int | None = None
    nvlink: NvLink = NvLink.ANY
    count: int = 0
    throttle: int = 0
    movable: bool = True
    body: dict[str, Any] = field(compare=False, repr=False, default_factory=dict)

    def to_spec(self, job_id: str, submitted_ms: int) -> JobSpec:
        """The job as the core knows it; of an array the first one, whose id is that of the array."""
        return JobSpec(
            id=job_id,
            team=self.team,
            gpus=self.gpus,
            gpu_type=self.gpu_type,
            priority=self.priority,
            max_runtime_ms=self.max_runtime_ms,
            submitted_ms=submitted_ms,
            hint=self.hint,
            cpu_per_rank=self.cpu_per_rank,
            memory_per_rank_gb=self.memory_per_rank_gb,
            scratch_gb=self.scratch_gb,
            checkpoint=self.checkpoint,
            on_preemption=self.on_preemption,
            on_node_failure=self.on_node_failure,
            max_restarts=self.max_restarts,
            topology_wait_ms=self.topology_wait_ms,
            nvlink=self.nvlink,
            array=job_id if self.count else "",
            throttle=self.throttle,
            movable=self.movable,
            name=f"{self.name}[0]" if self.count else self.name,
            owner=self.owner,
            launch=self.launch,
        )

    def body_hash(self) -> str:
        """SHA-256, in hex, of what is asked for: the order of keys and spelt-out defaults don't matter."""
        asked = {
            name: value
            for name, value in asdict(self).items()
            if name != "body" and (name not in LATER_FIELDS or value != LATER_FIELDS[name])
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parse(
    body: Any, teams: Mapping[str, TeamRights], gpu_types: Mapping[str, int], owner: str = ""
) -> JobRequest | list[FieldError]:
    """Check a decoded JSON body whole; every error in it is told, in the order of the fields.

    Args:
        body: what JSON decoded to, of any type.
        teams: every team there is, with the submitter's rights in it.
        gpu_types: GPU type → the most GPUs of it that one availability zone holds.
        owner: the owner where the body names none.
    """
    errors: list[FieldError] = []
    read = JOB.read(body, "", errors)
    if read is INVALID:
        return errors
    _check_rights(read, teams, errors)
    _check_size(read, teams, gpu_types, errors)
    _check_restarts(read, errors)
    _check_patience(read, errors)
    _check_array(read, errors)
    return errors or _request(read, body, owner)


def schema() -> dict[str, Any]:
    """The JSON schema of the body."""
    return JOB.schema()


def _check_rights(read: dict[str, Any], teams: Mapping[str, TeamRights], errors: list[FieldError]) -> None:
    team = read["team"]
    if team is INVALID:
        return
    own = ", ".join(sorted(name for name, rights in teams.items() if rights.may_submit)) or "none yet"
    if team not in teams:
        errors.append(FieldError("team", f"there is no team {shown(team)}", f"Your teams: {own}."))
    elif not teams[team].may_submit:
        remedy = f"Your teams: {own}. An admin of {team} can add you."
        errors.append(FieldError("team", f"you are not a member of {team}", remedy, "forbidden"))
    elif read["priority"] is Priority.P0 and not teams[team].p0:
        remedy = "Submit as P1, or have the right granted to the team in the quota tree."
        errors.append(FieldError("priority", f"may not be P0 for {team}", remedy, "forbidden"))


def _check_size(
    read: dict[str, Any], teams: Mapping[str, TeamRights], gpu_types: Mapping[str, int], errors: list[FieldError]
) -> None:
    resources = read["resources"]
    if resources is INVALID or INVALID in (resources["gpu_type"], resources["gpu_count"]):
        return
    kind, count = resources["gpu_type"], resources["gpu_count"]
    if kind != ANY_GPU_TYPE and kind not in gpu_types:
        known = ", ".join([*sorted(gpu_types), ANY_GPU_TYPE])
        reason = f"the fleet has no GPUs of type {shown(kind)}"
        errors.append(FieldError("resources.gpu_type", reason, f"Known types: {known}."))
        return
    largest = max(gpu_types.values(), default=0) if kind == ANY_GPU_TYPE else gpu_types[kind]
    if count > largest:
        what = "of one type" if kind == ANY_GPU_TYPE else kind
        reason = f"{count} GPUs never fit: the largest zone holds {largest} {what}, and a job never spans two"
        remedy = f"Ask for at most {largest}." if largest else "Wait until hosts are registered."
        errors.append(FieldError("resources.gpu_count", reason, remedy, Reason.NEVER_FITS))
    elif read["team"] in teams:
        _check_ceilings(teams[read["team"]], kind, count, gpu_types, errors)


def _check_ceilings(
    rights: TeamRights, kind: str, count: int, gpu_types: Mapping[str, int], errors: list[FieldError]
) -> None:
    kinds = list(gpu_types) if kind == ANY_GPU_TYPE else [kind]
    bounds = [_tightest(rights, one) for one in kinds]
    if not bounds or any(bound is None or count <= bound[1] for bound in bounds):
        return
    node, most = max((bound for bound in bounds if bound is not None), key=lambda bound: bound[1])
    reason = f"{count} GPUs exceed the ceiling of {node}: {most} {'' if kind == ANY_GPU_TYPE else kind}".rstrip()
    remedy = f"Ask for at most {most}, or have the ceiling of {node} raised."
    errors.append(FieldError("resources.gpu_count", reason, remedy, Reason.QUOTA_CEILING))


def _tightest(rights: TeamRights, kind: str) -> tuple[str, int] | None:
    bounds = [(node, ceiling[kind]) for node, ceiling in rights.ceilings if kind in ceiling]
    return min(bounds, key=lambda bound: bound[1], default=None)


def _check_restarts(read: dict[str, Any], errors: list[FieldError]) -> None:
    policy = read["restart_policy"]
    if read["checkpoint"] is not None or policy is INVALID:
        return
    for name in ("on_preemption", "on_node_failure"):
        if policy[name] is OnLoss.RESUME:
            remedy = f"Give a checkpoint, or {name}: restart or fail."
            errors.append(FieldError(f"restart_policy.{name}", "there is no checkpoint to resume from", remedy))


def _check_patience(read: dict[str, Any], errors: list[FieldError]) -> None:
    hint, wait = read["topology_hint"], read["topology_wait_minutes"]
    if wait in (None, INVALID) or hint is INVALID or hint in PREFERS:
        return
    remedy = f"Give topology_hint: {Hint.PREFER_SAME_RACK.value}, or leave topology_wait_minutes out."
    errors.append(FieldError("topology_wait_minutes", f"says nothing with topology_hint {hint.value}", remedy))


def _check_array(read: dict[str, Any], errors: list[FieldError]) -> None:
    array, name = read["array"], read["name"]
    if array in (None, INVALID) or INVALID in (array["count"], name):
        return
    most = NAME_MOST - len(f"[{array['count'] - 1}]")
    if len(name) > most:
        errors.append(
            FieldError(
                "name", f"leaves no room for the numbers of {array['count']} jobs", f"Shorten it to {most} characters."
            )
        )


def _request(read: dict[str, Any], body: dict[str, Any], owner: str) -> JobRequest:
    resources, policy, saves = read["resources"], read["restart_policy"], read["checkpoint"]
    wait, array = read["topology_wait_minutes"], read["array"]
    by_default = OnLoss.RESTART if saves is None else OnLoss.RESUME
    return JobRequest(
        name=read["name"],
        team=read["team"],
        owner=read["owner"] or owner,
        priority=int(read["priority"].value[1:]),
        gpus=resources["gpu_count"],
        gpu_type=resources["gpu_type"],
        hint=read["topology_hint"],
        max_runtime_ms=round(read["max_runtime_hours"] * HOUR_MS),
        cpu_per_rank=resources["cpu_per_rank"],
        memory_per_rank_gb=resources["memory_per_rank_gb"],
        scratch_gb=resources["scratch_disk_gb"],
        checkpoint=saves and _checkpoint(saves),
        on_preemption=policy["on_preemption"] or by_default,
        on_node_failure=policy["on_node_failure"] or by_default,
        max_restarts=policy["max_restarts"],
        topology_wait_ms=None if wait is None else round(wait * MINUTE_MS),
        nvlink=resources["nvlink"],
        count=array["count"] if array else 0,
        movable=policy["may_be_moved"],
        throttle=(array["throttle"] or 0) if array else 0,
        launch=Launch(image=read["image"], command=read["command"], env=read["env"]),
        body=body,
    )


def _checkpoint(saves: dict[str, Any]) -> CheckpointSpec:
    every_ms = round(saves["interval_minutes"] * MINUTE_MS)
    return CheckpointSpec(
        every_ms=every_ms,
        takes_ms=min(CHECKPOINT_TAKES_MS, every_ms // 2),
        path=saves["path"],
        retain_last_n=saves["retain_last_n"],
        signal=saves["signal"].value,
    )
