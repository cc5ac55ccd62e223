"""The cluster: the live map, the same as a table of hosts, one host, and what on-call does to it."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from nodes.models import Node
from nodes.services import UnknownNode
from portal import operations
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.operations import Kind, Where
from portal.views import host, present
from portal.views.operate import DONE, acts_of, reason_of
from scheduler import clock, selectors
from scheduler.core.types import HostState
from scheduler.models import Job

PAGE = 100
FILTERS = ("az", "rack", "gpu_type", "state")


@login_required
@require_safe
def cluster(request: HttpRequest) -> HttpResponse:
    """The map. ``?job=`` lights a gang, ``?node=`` pins a host, ``?by=`` colours: read by the page's own script."""
    lit = selectors.visible_jobs(standing_of(request).team_ids).filter(pk=request.GET.get("job", "")[:32]).first()
    return render(request, "cluster/page.html", {"fleet": present.fleet(), "lit": lit})


@login_required
@require_safe
def nodes(request: HttpRequest) -> HttpResponse:
    """Every host as a table: what the map shows, for reading, searching and printing."""
    found = present.nodes()
    everything = found or []
    wanted = {name: request.GET.get(name, "") for name in FILTERS}
    text = request.GET.get("q", "").strip().lower()
    rows = [row for row in everything if _fits(row, wanted) and text in row.name.lower()]
    page = max(1, int(request.GET["page"])) if request.GET.get("page", "").isdecimal() else 1
    context = {
        "loaded": found is not None,
        "rows": rows[(page - 1) * PAGE : page * PAGE],
        "count": len(rows),
        "first": (page - 1) * PAGE + 1,
        "choices": {name: sorted({getattr(row, name) for row in everything}) for name in FILTERS[:3]},
        "states": _states(everything, wanted, text),
        "wanted": wanted,
        "text": text,
        "narrowed": bool(text or any(wanted.values())),
        "newer": _turned(request, page - 1) if page > 1 else "",
        "older": _turned(request, page + 1) if page * PAGE < len(rows) else "",
        "freshness": present.freshness(),
    }
    part = getattr(request, "htmx", False) and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    response = render(request, "nodes/results.html" if part else "nodes/page.html", context)
    response["Vary"] = "HX-Request"
    return response


def _fits(row: selectors.NodeRow, wanted: dict[str, str]) -> bool:
    return all(not value or getattr(row, name) == value for name, value in wanted.items())


def _states(rows: list[selectors.NodeRow], wanted: dict[str, str], text: str) -> list[dict[str, Any]]:
    """How many hosts each state has, under every other filter."""
    others = wanted | {"state": ""}
    counted = Counter(row.state for row in rows if _fits(row, others) and text in row.name.lower())
    known = [HostState.READY, *(state for state in HostState if state is not HostState.READY)]
    entries = [{"value": "", "word": "All", "count": counted.total(), "chosen": not wanted["state"]}]
    return entries + [
        {
            "value": s.value,
            "word": s.value.capitalize(),
            "count": counted[s.value],
            "chosen": wanted["state"] == s.value,
        }
        for s in known
        if counted[s.value] or wanted["state"] == s.value
    ]


def _turned(request: HttpRequest, page: int) -> str:
    return urlencode({**request.GET.dict(), "page": page})


@login_required
@require_safe
def node(request: HttpRequest, name: str) -> HttpResponse:
    context = _node_context(request, name)
    return render(request, "nodes/node.html", context | host.health_of(request, context["node"].name, context["live"]))


@login_required
@require_safe
def panel(request: HttpRequest, name: str) -> HttpResponse:
    """The host as the map's panel shows it; ``?gpu=`` names the GPU that was pointed at."""
    gpu = request.GET.get("gpu", "")
    context = (
        _node_context(request, name)
        | host.readings_of(name)
        | {"gpu": int(gpu) if gpu.isdecimal() and len(gpu) < 4 else None}
    )
    return render(request, "nodes/panel.html", context)


def _node_context(request: HttpRequest, name: str) -> dict[str, Any]:
    standing = standing_of(request)
    row = Node.objects.filter(pk=name.replace("\x00", ""), removed_at=None).first()
    if row is None:
        raise Http404(f"There is no host {name[:64]}.")
    live = present.node(row.name)
    held = live.held_by if live is not None else ()
    seen = {one["id"] for one in held if standing.sees_jobs_of(one["team"])}
    names = dict(Job.objects.filter(pk__in=seen).values_list("pk", "name"))
    return {
        "node": row,
        "live": live,
        "jobs": [{**one, "seen": one["id"] in seen, "name": names.get(one["id"], one["id"])} for one in held],
        "teams": {one["id"]: one["team"] for one in held},
        "phases": {one["id"]: one["phase"] for one in held},
        **acts_of(request, Where((row.name,), row.name), {}),
        "freshness": present.freshness(),
        "now_ms": clock.now_ms(),
    }


def _act(request: HttpRequest, name: str, kind: Kind) -> HttpResponse:
    """Do something to a host for on-call; the map's panel gets itself back, a page is reloaded with a word."""
    if not standing_of(request).operates_nodes:
        raise PermissionDenied("Only on-call and administrators operate hosts.")
    reason = reason_of(request) or f"by {request.user.get_username()}"
    try:
        operations.operate(cast(User, request.user), kind, Where((name,), name), reason)
    except UnknownNode as error:
        raise Http404(f"There is no host {name[:64]}.") from error
    words = DONE[kind].format(name)
    if request.headers.get("X-Requested-With") == "fetch":
        context = _node_context(request, name) | host.readings_of(name)
        return render(request, "nodes/panel.html", context | {"done": words})
    messages.success(request, words)
    return redirect("node", name)


@login_required
@require_POST
def cordon(request: HttpRequest, name: str) -> HttpResponse:
    return _act(request, name, Kind.CORDON)


@login_required
@require_POST
def drain(request: HttpRequest, name: str) -> HttpResponse:
    return _act(request, name, Kind.DRAIN)


@login_required
@require_POST
def uncordon(request: HttpRequest, name: str) -> HttpResponse:
    return _act(request, name, Kind.UNCORDON)
