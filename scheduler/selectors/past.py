"""The map as it was: the shape of ``cluster_map``, from history alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from nodes.models import Node
from scheduler import clock
from scheduler.core.types import Health, HostState
from scheduler.models import Act, Job
from scheduler.past import state_at
from scheduler.selectors.cluster import FAULTY, FREE

_WISHES = ("cordon", "drain", "uncordon")


def map_at(at: datetime) -> dict[str, Any]:
    """Every host that was part of the fleet at ``at``, with what its GPUs were doing. A constant number of queries.

    ``revision`` is 0: it is no state that a delta could start from. ``at_ms`` says when it was.
    """
    state = state_at(at)
    hosts = Node.objects.filter(Q(removed_at=None) | Q(removed_at__gt=at), registered_at__lte=at)
    known = {
        job.pk: job
        for job in Job.objects.filter(pk__in=state["jobs"])
        .select_related("team")
        .only("id", "team__name", "gpus", "priority")
    }
    slots: dict[str, dict[int, int]] = {}
    jobs = [_job(known.get(job_id), job_id, phase) for job_id, (phase, _) in state["jobs"].items()]
    for place, (_, held) in enumerate(state["jobs"].values()):
        for node, gpus in held.items():
            slots.setdefault(node, {}).update(dict.fromkeys(gpus, place))
    wished = _wishes(at)
    rows = [_row(node, state, slots.get(node.pk, {}), wished) for node in hosts]
    return {"revision": 0, "at_ms": clock.to_ms(at), "nodes": rows, "jobs": jobs, "held": []}


def _job(job: Job | None, job_id: str, phase: str) -> list[Any]:
    if job is None:
        return [job_id, "", phase, 0, 3, None]
    return [job_id, job.team.name, phase, job.gpus, job.priority, None]


def _row(node: Node, state: Mapping[str, Any], slots: Mapping[int, int], wished: Mapping[str, str]) -> list[Any]:
    faulty = set(state["faulty"].get(node.pk, ()))
    cells = [slots.get(gpu, FAULTY if gpu in faulty else FREE) for gpu in range(node.gpus)]
    health = state["hosts"].get(node.pk, [Health.READY.value])[0]
    shown = wished.get(node.pk, HostState.READY.value) if health == Health.READY else health
    return [node.pk, node.az, node.rack, node.gpu_type, shown, cells]


def _wishes(at: datetime) -> dict[str, str]:
    """The hosts that on-call had cordoned or drained by then."""
    found: dict[str, str] = {}
    acts = Act.objects.filter(act__in=_WISHES, at__lte=at).order_by("at", "pk").values_list("act", "nodes")
    for act, names in acts:
        for name in names:
            if act == "uncordon":
                found.pop(name, None)
            elif act == "drain" or found.get(name) != HostState.DRAINING:
                found[name] = (HostState.DRAINING if act == "drain" else HostState.CORDONED).value
    return found
