"""Filters of the list of jobs under a name of one's own."""

from __future__ import annotations

from typing import cast
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from portal.accounts.models import SavedView, User

FILTERS = frozenset({"whose", "team", "owner", "priority", "state", "gpu_type", "q"})
"""What of an address a view keeps."""
MOST = 30


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keep the filters under a name; the same name again keeps the new ones."""
    user = cast(User, request.user)
    name = " ".join(request.POST.get("name", "").replace("\x00", "").split())[:40]
    query = filters_of(request.POST.get("query", ""))
    if not name:
        messages.error(request, "A view needs a name.")
    elif len(query) > 1000:
        messages.error(request, "These filters are too long to be kept.")
    else:
        with transaction.atomic():
            User.objects.select_for_update().get(pk=user.pk)
            known = SavedView.objects.filter(user=user)
            if known.count() >= MOST and not known.filter(name=name).exists():
                messages.error(request, f"You have {MOST} views. Delete one first.")
            else:
                SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})
                messages.success(request, f"Saved as {name}.")
    return redirect(f"{reverse('jobs')}?{query}")


@login_required
@require_POST
def forget(request: HttpRequest, view_id: int) -> HttpResponse:
    view = get_object_or_404(SavedView, pk=view_id, user_id=request.user.pk)
    view.delete()
    messages.success(request, f"The view {view.name} is deleted.")
    return redirect(f"{reverse('jobs')}?{view.query}")


def filters_of(query: str) -> str:
    return urlencode([(name, value) for name, value in parse_qsl(query) if name in FILTERS and "\x00" not in value])
