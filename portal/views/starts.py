"""How well starts are told: coverage and error by team and size, by day, and the versions of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.accounts.permissions import standing_of
from scheduler.eta import scoring
from scheduler.eta.models import RunTimeModel
from scheduler.eta.scoring import Score
from scheduler.selectors.incidents import Alert

WIDTH, HEIGHT = 960, 240
VERSIONS = 10


@dataclass(frozen=True, slots=True)
class Dot:
    """A day in the plot: the share that came by P90, and by P50."""

    x: float
    p90_y: float
    p50_y: float
    words: str


@login_required
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """For on-call and administrators: the figures are of all teams."""
    if not standing_of(request).operates_nodes:
        raise PermissionDenied
    found = scoring.calibrated(timezone.now())
    context = {
        "found": found,
        "dots": _dots(found.days),
        "lines": {"p90": _y(0.9), "p50": _y(0.5), "low": _y(scoring.LOW), "high": _y(scoring.HIGH)},
        "band": _y(scoring.LOW) - _y(scoring.HIGH),
        "width": WIDTH,
        "height": HEIGHT,
        "low": scoring.LOW,
        "high": scoring.HIGH,
        "versions": list(RunTimeModel.objects.all()[:VERSIONS]),
    }
    return render(request, "starts/page.html", context)


def alerts() -> list[Alert]:
    """Told where coverage has left what P90 promises."""
    found = scoring.calibrated(timezone.now())
    whole = found.whole
    if whole is None or not found.off:
        return []
    words = f"{whole.by_p90:.0%} of jobs started by the P90 that was told"
    detail = (
        f"Of {whole.told} starts of the last week; it should be 80 to 97 %. "
        "What is told now is set right by these as they come in."
    )
    return [Alert(words, detail, "suspect", round(found.since.timestamp() * 1000))]


def _y(share: float) -> float:
    return round(HEIGHT * (1 - share), 1)


def _dots(days: Sequence[Score]) -> list[Dot]:
    step = WIDTH / max(1, len(days))
    return [
        Dot(
            round(step * (at + 0.5), 1),
            _y(day.by_p90),
            _y(day.by_p50),
            f"{day.name}: {day.by_p90:.0%} by P90, {day.by_p50:.0%} by P50, of {day.told}",
        )
        for at, day in enumerate(days)
    ]
