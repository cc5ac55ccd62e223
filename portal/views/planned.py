"""What is planned: maintenance windows and reservations, with what on-call does to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from nodes import maintenance
from nodes import selectors as nodes
from nodes.models import Maintenance
from portal import mending, operations
from portal.accounts.models import User
from portal.accounts.permissions import standing_of
from portal.api.reservations import read_wish
from portal.views import present
from portal.views.operate import local_moment, reason_of, span_problem
from quotas import selectors as quotas
from scheduler import reservations, selectors
from scheduler.fields import FieldError
from scheduler.models import Reservation
from scheduler.store.base import StoreUnavailable

SHOWN = 50
FIELDS = ("name", "team", "gpus", "gpu_type", "start", "end", "reason")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def planned(request: HttpRequest) -> HttpResponse:
    """A POST reserves; with ``check`` it only says how much would be free by then."""
    asked: dict[str, Any] = {}
    if request.method == "POST":
        if not standing_of(request).operates_nodes:
            raise PermissionDenied("Only on-call and administrators reserve.")
        wish, problem = _read(request)
        asked = {"typed": {name: request.POST.get(name, "") for name in FIELDS}, "problem": problem}
        if wish is not None and "check" in request.POST:
            asked["free_by_then"] = operations.reservable(wish)
        elif wish is not None:
            operations.reserve(cast(User, request.user), wish)
            messages.success(request, f"{wish.gpus} {wish.gpu_type} GPUs are reserved for {wish.team}.")
            return redirect("planned")
    return render(request, "planned/page.html", {**_context(request), **asked})


def _context(request: HttpRequest) -> dict[str, Any]:
    now = timezone.now()
    windows = Maintenance.objects.order_by("-start", "-pk")
    booked = Reservation.objects.select_related("team").order_by("-start", "-pk")
    return {
        "operates": standing_of(request).operates_nodes,
        "windows": [(row, _state(row, now)) for row in windows[:SHOWN]],
        "booked": [(row, _state(row, now)) for row in booked[:SHOWN]],
        "teams": sorted(team.name for team in quotas.teams(quotas.tree_in_force())),
        "gpu_types": sorted(nodes.largest_zones()),
        **(_moves() if standing_of(request).operates_nodes else {}),
    }


def _moves() -> dict[str, Any]:
    """What repair proposes, with the names of the jobs in it."""
    found = present.moves() or []
    names = selectors.jobs_named({one.job for one in found} | {move.job for one in found for move in one.moves})
    return {
        "moves": [(one, names.get(one.job), [(move, names.get(move.job)) for move in one.moves]) for one in found],
        "repair_mode": mending.mode(),
    }


def _state(row: Maintenance | Reservation, now: datetime) -> str:
    if row.cancelled_at is not None:
        return "cancelled"
    if row.end <= now:
        return "over"
    return "now" if row.start <= now else "planned"


def _read(request: HttpRequest) -> tuple[reservations.Wish | None, str]:
    given = request.POST
    start, end = (local_moment(request, given.get(name, "")) for name in ("start", "end"))
    problem = span_problem(start, end)
    gpus = given.get("gpus", "")
    if not gpus.isascii() or not gpus.isdecimal() or not 0 < int(gpus[:7]) <= 100_000:
        problem = problem or "Give a number of GPUs."
    name = " ".join(given.get("name", "").replace("\x00", "").split())[:128]
    if not name:
        problem = problem or "Give it a name."
    reason = reason_of(request)
    if not reason and "check" not in given:
        problem = problem or "Say why: it is kept in the audit."
    if problem:
        return None, problem
    wanted = {"name": name, "team": given.get("team", ""), "gpus": int(gpus), "gpu_type": given.get("gpu_type", "")}
    wish = read_wish({**wanted, "start": start, "end": end, "reason": reason})
    return (None, _words(wish[0])) if isinstance(wish, list) else (wish, "")


def _words(error: FieldError) -> str:
    return f"{error.field.replace('_', ' ').capitalize()} {error.reason}. {error.remedy}"


@login_required
@require_POST
def accept_moves(request: HttpRequest, proposal_id: str) -> HttpResponse:
    _only_oncall(request)
    try:
        done = mending.accept(cast(User, request.user), proposal_id, reason_of(request))
    except mending.Gone:
        messages.warning(request, "That is not so any more: nothing was moved. This is what could be moved now.")
    except StoreUnavailable:
        messages.warning(request, "The live state is away: nothing was moved.")
    else:
        messages.success(request, f"{len(done.moves)} jobs save their work and move, for {done.gpus} GPUs together.")
    return redirect("planned")


@login_required
@require_POST
def cancel_maintenance(request: HttpRequest, window_id: int) -> HttpResponse:
    _only_oncall(request)
    try:
        row = operations.cancel_maintenance(cast(User, request.user), window_id, reason_of(request))
    except Maintenance.DoesNotExist as error:
        raise Http404("There is no such maintenance.") from error
    except maintenance.Over:
        messages.warning(request, "That maintenance was over already.")
    else:
        messages.success(request, f"The maintenance of {row.place} is cancelled.")
    return redirect("planned")


@login_required
@require_POST
def cancel_reservation(request: HttpRequest, reservation_id: str) -> HttpResponse:
    _only_oncall(request)
    try:
        row = operations.cancel_reservation(cast(User, request.user), reservation_id, reason_of(request))
    except Reservation.DoesNotExist as error:
        raise Http404("There is no such reservation.") from error
    except reservations.Over:
        messages.warning(request, "That reservation was over already.")
    else:
        messages.success(request, f"{row.name} is cancelled.")
    return redirect("planned")


def _only_oncall(request: HttpRequest) -> None:
    if not standing_of(request).operates_nodes:
        raise PermissionDenied("Only on-call and administrators may do that.")
