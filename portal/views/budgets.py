"""Budgets of the quota tree with what is used of them, and the price list."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from nodes import selectors as nodes
from portal import spending
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing_of
from portal.views.quotas import may_edit
from quotas import selectors
from quotas.models import Price
from scheduler import budgets, clock
from scheduler.budgets import Spent
from scheduler.core.types import QuotaTree


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest) -> HttpResponse:
    """A POST sets a budget, or, with ``gpu_type``, a price."""
    standing, tree = standing_of(request), selectors.tree_in_force()
    now = clock.to_datetime(clock.now_ms())
    asked: dict[str, Any] = {}
    if request.method == "POST":
        typed = {name: str(value) for name, value in request.POST.items()}
        try:
            done = _edit(cast(User, request.user), standing, tree, typed, now)
        except spending.Wrong as error:
            words = [f"{one.field.replace('_', ' ')} {one.reason}. {one.remedy}" for one in error.errors]
            asked = {"typed": typed, "priced": "gpu_type" in typed, "errors": words}
        else:
            messages.success(request, done)
            return redirect("budgets")
    context = {**_context(standing, tree, now), **asked}
    return render(request, "quotas/budgets.html", context, status=400 if asked else 200)


def _edit(user: User, standing: Standing, tree: QuotaTree, typed: dict[str, str], now: datetime) -> str:
    """Do what the form asks for; answers what was done, in words.

    Raises:
        spending.Wrong: nothing was done.
    """
    if "gpu_type" in typed:
        if not standing.administrator:
            raise PermissionDenied("Only administrators set prices.")
        price = spending.read_price(typed)
        spending.set_price(user, price, now)
        return f"An hour of {price.gpu_type} costs {price.gpu_hour} from {price.since} on."
    may = spending.budgetable(standing, tree)
    if not may:
        raise PermissionDenied("A node's budget is set by the admins above it.")
    wanted = spending.read_budget(typed, may)
    spending.set_budget(user, wanted, now)
    return f"The budget of {wanted.node} is {'set' if wanted.gpu_hours is not None else 'taken away'}."


def seen(standing: Standing, tree: QuotaTree, now: datetime) -> list[Spent]:
    """The budgets that concern the person: of their teams, of what is above those, of what they may set."""
    if standing.sees_all:
        return budgets.spent(now)
    names = {node.name for team in standing.member_of for node in selectors.path(tree, team)}
    return budgets.spent(now, names | spending.budgetable(standing, tree))


def _context(standing: Standing, tree: QuotaTree, now: datetime) -> dict[str, Any]:
    return {
        "budgets": seen(standing, tree, now),
        "settable": sorted(spending.budgetable(standing, tree)),
        "prices": Price.objects.order_by("gpu_type", "-since"),
        "may_price": standing.administrator,
        "gpu_types": sorted(nodes.largest_zones()),
        "today": now.date(),
        "may_edit": may_edit(tree, standing),
    }
