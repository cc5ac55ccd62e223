"""On-call acts on hosts, racks and zones, each with its blast radius first: the map's panel, and the same as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from nodes.models import Node
from nodes.services import UnknownNode
from portal import operations
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.operations import Kind, Where
from portal.views import present
from portal.views.preferences import zone_of
from scheduler import clock, selectors
from scheduler.core import blast
from scheduler.core.types import WORKING, HostState

PARDONED = frozenset({HostState.QUARANTINED, HostState.PROBATION})
"""The states that a release ends."""
REASON_MOST = 500
HOSTS_MOST = 2000
DONE = {
    Kind.CORDON: "{} takes no new work.",
    Kind.UNCORDON: "{} takes work again.",
    Kind.DRAIN: "{} is being drained: its jobs save their work and move.",
    Kind.PARDON: "{} is released: what went wrong there is not held against it any more.",
    Kind.REMOVE: "{} is no part of the fleet any more.",
    Kind.MAINTENANCE: "Maintenance of {} is planned.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """The radius of an act: in a line, and team by team."""

    words: str
    radius: blast.Blast | None


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def operate(request: HttpRequest) -> HttpResponse:
    """``?az=``, ``?az=&rack=`` or ``?hosts=a,b``; a POST does ``act`` to them, ``check`` only tells its radius."""
    where = where_of(request.POST if request.method == "POST" else request.GET)
    if request.method != "POST":
        return _show(request, where, {})
    if not standing_of(request).operates_nodes:
        raise PermissionDenied("Only on-call and administrators operate hosts.")
    asked, problem = _read(request)
    if problem or "check" in request.POST:
        return _show(request, where, {**asked, "problem": problem})
    try:
        _do(cast(User, request.user), where, asked)
    except (operations.StillAlive, UnknownNode) as error:
        return _show(request, where, {**asked, "problem": f"{error}."})
    done = DONE[asked["kind"]].format(where.words)
    if request.headers.get("X-Requested-With") == "fetch":
        return _show(request, where, {"done": done})
    messages.success(request, done)
    return redirect("nodes")


def where_of(given: QueryDict) -> Where:
    """The hosts that the parameters name. Raises Http404 where there is none."""
    az, rack = given.get("az", "").replace("\x00", ""), given.get("rack", "").replace("\x00", "")
    names = [name for name in given.get("hosts", "").replace("\x00", "").split(",") if name][:HOSTS_MOST]
    rows = Node.objects.filter(removed_at=None)
    if names:
        rows = rows.filter(pk__in=names)
    elif az:
        rows = rows.filter(az=az, **({"rack": rack} if rack else {}))
    else:
        raise Http404("Nothing says which hosts are meant.")
    chosen = tuple(rows.order_by("name").values_list("name", flat=True))
    if not chosen:
        raise Http404("There are no such hosts.")
    if names:
        return Where(chosen, chosen[0] if len(chosen) == 1 else f"{len(chosen)} hosts")
    return Where(chosen, f"{az} {rack}" if rack else az)


def local_moment(request: HttpRequest, text: str) -> datetime | None:
    """What a datetime field of a form holds, which is in the reader's zone; None if it is none."""
    try:
        moment = parse_datetime(text[:32])
    except ValueError:
        return None
    return moment.replace(tzinfo=zone_of(request)) if moment is not None and moment.tzinfo is None else moment


def span_problem(start: datetime | None, end: datetime | None) -> str:
    if start is None or end is None:
        return "Give a start and an end."
    if end <= start:
        return "The end is not after the start."
    return "The end has passed already." if end <= timezone.now() else ""


def reason_of(request: HttpRequest) -> str:
    """Why, in the words of whoever acts."""
    return " ".join(request.POST.get("reason", "").replace("\x00", "").split())[:REASON_MOST]


def _read(request: HttpRequest) -> tuple[dict[str, Any], str]:
    """What is asked for, and what is wrong with it."""
    acts = {kind.value: kind for kind in DONE}
    kind = acts.get(request.POST.get("act", ""))
    if kind is None:
        raise Http404("There is no such act.")
    asked: dict[str, Any] = {"kind": kind, "reason": reason_of(request)}
    if kind is Kind.MAINTENANCE:
        asked |= {name: local_moment(request, request.POST.get(name, "")) for name in ("start", "end")}
        asked |= {f"{name}_text": request.POST.get(name, "") for name in ("start", "end")}
        problem = span_problem(asked["start"], asked["end"])
        if problem:
            return asked, problem
    if not asked["reason"] and kind is not Kind.UNCORDON and "check" not in request.POST:
        return asked, "Say why: it is kept in the audit."
    return asked, ""


def _do(user: User, where: Where, asked: dict[str, Any]) -> None:
    if asked["kind"] is Kind.MAINTENANCE:
        operations.maintain(user, where, asked["start"], asked["end"], asked["reason"])
    else:
        operations.operate(user, asked["kind"], where, asked["reason"])


def _show(request: HttpRequest, where: Where, asked: dict[str, Any]) -> HttpResponse:
    part = request.headers.get("X-Requested-With") == "fetch"
    context = {**_facts(where), **acts_of(request, where, asked), "freshness": present.freshness()}
    return render(request, "operate/panel.html" if part else "operate/page.html", context)


def _facts(where: Where) -> dict[str, Any]:
    """The hosts as they are: by state, their GPUs by type, the largest gang that could start in each rack."""
    names = set(where.nodes)
    rows = [row for row in present.nodes() or () if row.name in names]
    states = Counter(row.state for row in rows)
    types: dict[str, dict[str, int]] = {}
    for row in rows:
        held = types.setdefault(row.gpu_type, {"total": 0, "free": 0})
        held["total"] += row.gpus
        held["free"] += row.free if row.state in WORKING else 0
    return {
        "where": where,
        "rows": rows,
        "states": [(state.value, states[state.value]) for state in HostState if states[state.value]],
        "types": sorted(types.items()),
        "gangs": _gangs(rows),
    }


def _gangs(rows: Sequence[selectors.NodeRow]) -> list[tuple[str, str, int]]:
    """(rack, type, GPUs) of the largest gang that could start now on these hosts of each rack, the largest first."""
    whole: Counter[tuple[str, str]] = Counter()
    broken: dict[tuple[str, str], int] = {}
    for row in rows:
        key = f"{row.az} {row.rack}", row.gpu_type
        free = row.free if row.state in WORKING else 0
        if free == row.gpus:
            whole[key] += free
        else:
            broken[key] = max(broken.get(key, 0), free)
    found = {key: whole[key] + broken.get(key, 0) for key in {*whole, *broken}}
    return sorted(((*key, gpus) for key, gpus in found.items()), key=lambda one: (-one[2], one[0]))


def acts_of(request: HttpRequest, where: Where, asked: dict[str, Any]) -> dict[str, Any]:
    """What may be done here, each act with its radius as things stand."""
    if not standing_of(request).operates_nodes:
        return {"operates": False, "where": where, **asked}
    wished = Node.objects.filter(pk__in=where.nodes).values_list("cordon_reason", "drain_reason")
    start = asked.get("start")
    return {
        "operates": True,
        "where": where,
        "may_uncordon": any(cordon is not None or drain is not None for cordon, drain in wished),
        "may_cordon": any(cordon is None and drain is None for cordon, drain in wished),
        "may_drain": any(drain is None for _, drain in wished),
        "cordon": _told(Kind.CORDON, where),
        "drain": _told(Kind.DRAIN, where),
        "maintenance": _told(Kind.MAINTENANCE, where, None if start is None else clock.to_ms(start)),
        **_unwell(where),
        **asked,
    }


def _unwell(where: Where) -> dict[str, Any]:
    names = set(where.nodes)
    states = {row.state for row in present.nodes() or () if row.name in names}
    return {"may_pardon": not PARDONED.isdisjoint(states), "may_remove": states == {HostState.DOWN}}


def _told(kind: Kind, where: Where, from_ms: int | None = None) -> Told:
    radius = operations.radius(kind, where.nodes, from_ms)
    if radius is None:
        return Told("The live state cannot be read: whom this stops is not known.", None)
    line = blast.words(radius)
    return Told(line[0].upper() + line[1:] + ".", radius)
