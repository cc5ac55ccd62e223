"""Editing the quota tree: a draft in a form, what it would do by the planner, and putting it in force with a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal import quota_edit, quota_foresight
from portal.accounts.models import User
from portal.accounts.permissions import Standing, standing_of
from portal.forms import quotas as form
from portal.quota_edit import Refused, Wanted
from portal.templatetags.quota_words import quota_field
from portal.views.preferences import zone_of
from portal.views.quotas import may_edit
from quotas import diff, rights, selectors
from quotas.edits import NotSchedulable
from quotas.models import QuotaRevision
from quotas.rows import from_rows
from quotas.services import Outdated
from quotas.validation import problems
from scheduler.core.quota_preview import LevelShift, QuotaPreview
from scheduler.core.types import QuotaTree
from scheduler.models import Job
from scheduler.store.base import StoreUnavailable

REASON_MOST = 500
TICKET = re.compile(r"[0-9a-f]{24}", re.ASCII)
SHOWN = 12
"""Jobs listed of each kind in a preview; all are counted."""


@dataclass(slots=True)
class Editing:
    """A draft on its way. ``stale``: the tree was edited since the form was loaded, and the draft carried over."""

    standing: Standing
    present: QuotaTree
    types: list[str]
    draft: form.Draft
    stale: bool = False

    @property
    def editable(self) -> set[str]:
        return rights.editable(self.present, quota_edit.admin_of(self.standing))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest) -> HttpResponse:
    editing = _editing(request)
    context: dict[str, Any] = {"typed": request.POST}
    if request.method == "POST":
        _judge(editing)
        if request.POST.get("action") == "apply" and not editing.stale and not editing.draft.errors:
            refused = _apply(request, editing)
            if refused is None:
                return redirect("quotas")
            context["refused"] = refused
        context |= _previewed(editing)
    return render(request, "quotas/edit.html", context | _shown(editing))


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """The preview alone, for the page while one types."""
    editing = _editing(request)
    _judge(editing)
    context = _previewed(editing) | {"errors": _errors(editing.draft)}
    return render(request, "quotas/preview.html", context)


@login_required
@require_safe
def progress(request: HttpRequest, ticket: str) -> HttpResponse:
    """How far the worker is; once it is done, what it has found, in the place of what was told before."""
    standing = standing_of(request)
    seen = quota_foresight.look(standing, ticket) if TICKET.fullmatch(ticket) else None
    if seen is None or seen.found is None:
        return render(request, "quotas/progress.html", {"ticket": ticket, "look": seen})
    response = render(request, "quotas/foreseen.html", _told(seen.found))
    response["HX-Retarget"] = "#foreseen"
    return response


def _editing(request: HttpRequest) -> Editing:
    standing = standing_of(request)
    present = selectors.tree()
    if not may_edit(present, standing):
        raise PermissionDenied("Only admins of a part of the tree, and administrators, edit quotas.")
    types = quota_edit.known_types(present) or []
    editing = Editing(standing, present, types, form.Draft(present))
    if request.method == "POST":
        base = _base(request, present)
        editing.draft = form.read(request.POST, base, editing.editable, types)
        if base.version != present.version:
            editing.stale = True
            editing.draft.tree = diff.carried(base, editing.draft.tree, present)
            editing.draft.typed = {}
    return editing


def _base(request: HttpRequest, present: QuotaTree) -> QuotaTree:
    """The tree that the form was shown with."""
    given = request.POST.get("based_on", "")
    if not given.isdecimal() or len(given) > 9 or int(given) == present.version:
        return present
    row = QuotaRevision.objects.filter(version=int(given)).first()
    return from_rows(row.tree, row.version) if row is not None else present


def _judge(editing: Editing) -> None:
    """Note what is wrong with the draft, and what is beyond the person's rights."""
    draft = editing.draft
    draft.tell(problems(draft.tree, editing.types or None))
    if not draft.errors:
        draft.tell(rights.overreach(editing.present, draft.tree, quota_edit.admin_of(editing.standing)))


def _apply(request: HttpRequest, editing: Editing) -> str | None:
    """Put the draft in force or schedule it; answers in words why that could not be done, None if it was."""
    reason = " ".join(request.POST.get("reason", "").replace("\x00", "").split())[:REASON_MOST]
    if not reason:
        return "Say why: the reason is kept with the edit."
    if not diff.diff(editing.present, editing.draft.tree):
        return "The draft changes nothing."
    try:
        starts, ends = (_moment(request, name) for name in ("starts_at", "ends_at"))
    except ValueError:
        return "A time could not be read. Write it like 2026-04-19T18:00."
    wanted = Wanted(editing.draft.tree, editing.present.version, reason, starts, ends)
    try:
        scheduled = quota_edit.put(cast(User, request.user), editing.standing, wanted)
    except (Refused, NotSchedulable) as error:
        return f"{str(error).strip().capitalize()}."
    except Outdated:
        return "Somebody edited the tree a moment ago. Load the page again and look at both."
    messages.success(request, _done(scheduled, starts))
    return None


def _done(scheduled: object | None, starts: datetime | None) -> str:
    if scheduled is None:
        return "The edit is in force."
    return "The edit is scheduled." if starts is not None else "The edit is in force, and goes back by itself."


def _moment(request: HttpRequest, name: str) -> datetime | None:
    return form.moment(request.POST.get(name, ""), zone_of(request))


def _shown(editing: Editing) -> dict[str, Any]:
    draft = editing.draft
    parents = [node.name for node in editing.present.nodes if node.name in editing.standing.admin_of]
    if editing.standing.administrator:
        parents = ["", *(node.name for node in draft.tree.nodes)]
    return {
        "present": editing.present,
        "stale": editing.stale,
        "types": editing.types,
        "rows": form.rows(draft, editing.present, editing.editable, editing.types),
        "classes": form.CLASSES,
        "parents": parents,
        "errors": _errors(draft),
        "new_error": draft.errors.get(("", "new_name"), ""),
    }


def _errors(draft: form.Draft) -> list[str]:
    """Each in a line that says where it is."""
    found = []
    for (node, name), reason in draft.errors.items():
        where = [word for word in (node, "" if name == "new_name" else quota_field(name)) if word]
        found.append(f"{', '.join(where)}: {reason}" if where else reason)
    return found


def _previewed(editing: Editing) -> dict[str, Any]:
    """What the draft changes, and what the planner says of it."""
    changed = diff.diff(editing.present, editing.draft.tree)
    context: dict[str, Any] = {"changed": changed, "asked": True}
    if editing.draft.errors or not changed:
        return context
    try:
        foreseen = quota_edit.preview(editing.standing, editing.draft.tree)
    except Refused as error:
        editing.draft.tell(error.problems)
        return context
    except StoreUnavailable:
        return context | {"unseen": True}
    return context | _told(foreseen.found) | {"ticket": foreseen.ticket}


def _told(found: QuotaPreview) -> dict[str, Any]:
    """What the planner has found, for the page."""
    named = {
        one.job for kind in (found.stopped, found.spared, found.later, found.earlier, found.barred) for one in kind
    }
    hit = [shift for shift in found.levels if _hit(shift)]
    told = (hit, found.over, found.undeliverable, found.stopped, found.spared, found.barred, found.later, found.earlier)
    return {
        "found": found,
        "limit": SHOWN,
        "lists": f":{SHOWN}",
        "seen": found.until_ms >= found.now_ms,
        "names": dict(Job.objects.filter(pk__in=named - {""}).values_list("pk", "name")),
        "hit": hit,
        "silent": not any(told),
    }


def _hit(shift: LevelShift) -> bool:
    """Whether what a node may call its own changes."""
    before, after = shift.before, shift.after
    return before is None or after is None or before.right != after.right
