"""The quota tree: what everybody is owed and holds, one's own team's part in it and why, and what edits there were."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from portal import quota_edit
from portal.accounts.permissions import Standing, standing_of
from portal.quota_edit import Refused
from portal.views import present, share_words
from portal.views.quota_bars import bars
from quotas import diff, edits, history, rights, selectors
from quotas.edits import EditIsOver
from quotas.models import ScheduledEdit
from scheduler.core.types import QuotaTree
from scheduler.selectors.shares import Shares, TypeShares

REVISIONS = 20


@login_required
@require_safe
def quotas(request: HttpRequest) -> HttpResponse:
    """The tree with its bars, one GPU type at a time: ``?type=``."""
    standing = standing_of(request)
    tree = selectors.tree()
    shares = present.shares()
    chosen = chosen_type(shares, request.GET.get("type", ""))
    context = {
        "tree": tree,
        "shares": shares,
        "chosen": chosen,
        "bars": bars(chosen.lines) if chosen is not None else [],
        "sums": sums(chosen) if chosen is not None else None,
        "editable": rights.editable(tree, quota_edit.admin_of(standing)),
        "may_edit": may_edit(tree, standing),
        "scheduled": scheduled(tree, standing),
        "own": standing.member_of,
        "freshness": present.freshness(),
    }
    response = render(request, "quotas/live.html" if getattr(request, "htmx", False) else "quotas/page.html", context)
    response["Vary"] = "HX-Request"
    return response


def chosen_type(shares: Shares | None, wanted: str) -> TypeShares | None:
    """The type that was asked for, else the most numerous one; None while there is none."""
    if shares is None or not shares.types:
        return None
    return shares.types.get(wanted) or next(iter(shares.types.values()))


def sums(chosen: TypeShares) -> dict[str, int]:
    """Over the whole cluster, in GPUs of the type."""
    top, teams = chosen.below(None), [line for line in chosen.lines if line.team]
    return {
        "held": sum(line.held for line in top),
        "waiting": sum(line.waiting for line in top),
        "borrowed": sum(line.borrowed for line in teams),
        "owed": sum(line.owed for line in teams),
    }


def may_edit(tree: QuotaTree, standing: Standing) -> bool:
    """Whether there is anything that the person may edit: an administrator makes the first node."""
    return standing.administrator or bool(rights.editable(tree, standing.admin_of))


def scheduled(tree: QuotaTree, standing: Standing) -> list[dict[str, Any]]:
    return [
        {
            "edit": edit,
            "changes": diff.from_json(edit.changes),
            "may_cancel": quota_edit.may_cancel(standing, edit, tree),
        }
        for edit in edits.upcoming()
    ]


@login_required
@require_POST
def cancel_edit(request: HttpRequest, edit_id: int) -> HttpResponse:
    try:
        quota_edit.cancel(standing_of(request), edit_id)
    except ScheduledEdit.DoesNotExist as error:
        raise Http404(f"There is no scheduled edit {edit_id}.") from error
    except Refused as error:
        raise PermissionDenied(f"This edit {error.problems[0].reason}.") from error
    except EditIsOver:
        messages.info(request, "That edit was over already.")
    else:
        messages.success(request, "The edit is called off: its fields are as they were before it.")
    return redirect("quotas")


@login_required
@require_safe
def quota_history(request: HttpRequest) -> HttpResponse:
    """Every tree that came into force, newest first, by what it changed."""
    before = request.GET.get("before", "")
    found = history.history(REVISIONS + 1, int(before) if before.isdecimal() and len(before) < 10 else None)
    page = found[:REVISIONS]
    context = {
        "revisions": page,
        "older": f"before={page[-1].version}" if len(found) > len(page) else "",
        "newer": "" if not before else "before=",
        "may_edit": may_edit(selectors.tree(), standing_of(request)),
    }
    return render(request, "quotas/history.html", context)


@login_required
@require_safe
def share(request: HttpRequest) -> HttpResponse:
    """What a team is owed, holds and waits for, who has borrowed what it waits for, and why: ``?team=``."""
    standing = standing_of(request)
    teams = [node.name for node in selectors.teams(selectors.tree())]
    if not standing.sees_all:
        teams = [team for team in teams if team in standing.member_of]
    team = request.GET.get("team") or (teams[0] if teams else "")
    if team and team not in teams:
        raise Http404(f"There is no team {team[:64]} that you belong to.")
    shares = present.shares()
    parts = [_part(one, team) for one in shares.types.values()] if shares is not None and team else []
    context = {
        "team": team,
        "teams": teams,
        "shares": shares,
        "parts": parts,
        "freshness": present.freshness(),
        "may_edit": may_edit(selectors.tree(), standing),
    }
    response = render(
        request, "quotas/share_live.html" if getattr(request, "htmx", False) else "quotas/share.html", context
    )
    response["Vary"] = "HX-Request"
    return response


def _part(shares: TypeShares, team: str) -> dict[str, Any]:
    levels = share_words.path(shares, team)
    return {
        "gpu_type": shares.gpu_type,
        "line": levels[-1] if levels else None,
        "bars": bars(levels),
        "why": share_words.why(shares, team),
        "borrowers": share_words.borrowers(shares, team),
    }
