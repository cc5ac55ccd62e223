"""What was told against what came: filled in as jobs start, counted by team and size, forgotten after some weeks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Max

from scheduler.core.types import TERMINAL, EventKind
from scheduler.eta.calibration import Scored, Told
from scheduler.eta.models import StartTold
from scheduler.eta.past import size_class
from scheduler.models import Job, JobEvent

KEPT = timedelta(days=60)
BATCH = 2000
LEARNED_FROM = timedelta(days=14)
MOST = 5000
WAITED = timedelta(minutes=1)
"""Only of jobs that waited longer is counted how well their start was told."""
SHOWN = timedelta(days=7)
LOW, HIGH = 0.80, 0.97
ENOUGH = 100
"""So many have to be counted before coverage is called wrong."""


def score(now: datetime) -> int:
    """Fill in what came of what was told; answers of how many rows. Forgets what is old."""
    StartTold.objects.filter(at__lt=now - KEPT).delete()
    open_ = StartTold.objects.filter(came=None, void=False)
    names = set(open_.values_list("job", flat=True).distinct()[:BATCH])
    done = 0
    binds = _binds(names)
    over = set(Job.objects.filter(pk__in=names, state__in=TERMINAL).values_list("pk", flat=True))
    known = set(Job.objects.filter(pk__in=names).values_list("pk", flat=True))
    changed = []
    for row in open_.filter(job__in=names):
        came = next((at for at in binds.get(row.job, ()) if at > row.at), None)
        if came is not None:
            row.came = came
        elif row.job in over or row.job not in known:
            row.void = True
        else:
            continue
        changed.append(row)
        done += 1
    StartTold.objects.bulk_update(changed, ["came", "void"], batch_size=500)
    return done


def _binds(names: Iterable[str]) -> dict[str, list[datetime]]:
    answer: dict[str, list[datetime]] = {}
    found = JobEvent.objects.filter(job__in=names, kind=EventKind.BIND.value).order_by("at")
    for job, at in found.values_list("job", "at"):
        answer.setdefault(job, []).append(at)
    return answer


def scored(now: datetime) -> list[Scored]:
    """What the next predictions are set right by: the newest, those of jobs that wait still with them."""
    rows = StartTold.objects.filter(at__gte=now - LEARNED_FROM, void=False).order_by("-at")[:MOST]
    return [
        Scored(
            Told(row.at.timestamp(), row.raw_s, row.gpus),
            ((row.came or now) - row.at).total_seconds(),
            row.came is not None,
        )
        for row in rows
    ]


def told_last(now: datetime) -> dict[str, tuple[int, int, str]]:
    """By waiting job the P50 that was told last, when, and why it had moved; in ms."""
    newest = StartTold.objects.filter(came=None, void=False).values("job").annotate(newest=Max("pk")).values("newest")
    rows = StartTold.objects.filter(pk__in=newest)
    return {row.job: (round(row.p50.timestamp() * 1000), round(row.at.timestamp() * 1000), row.why) for row in rows}


@dataclass(frozen=True, slots=True)
class Score:
    """Of ``told`` starts: the shares that came by P50 and by P90, the median absolute error of P50 and the median time
    from telling to start, in seconds."""

    name: str
    told: int
    by_p50: float
    by_p90: float
    error_s: float
    wait_s: float

    @property
    def error_ms(self) -> int:
        return round(self.error_s * 1000)

    @property
    def wait_ms(self) -> int:
        return round(self.wait_s * 1000)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How well starts were told since ``since``: all, and by team, size and day."""

    since: datetime
    whole: Score | None
    teams: Sequence[Score]
    sizes: Sequence[Score]
    days: Sequence[Score]

    @property
    def off(self) -> bool:
        """Whether coverage is not what P90 says."""
        return self.whole is not None and self.whole.told >= ENOUGH and not LOW <= self.whole.by_p90 <= HIGH


def calibrated(now: datetime, span: timedelta = SHOWN, teams: frozenset[str] | None = None) -> Calibrated:
    """``teams`` None: all."""
    rows = StartTold.objects.filter(at__gte=now - span, came__isnull=False)
    if teams is not None:
        rows = rows.filter(team__in=teams)
    submitted = dict(Job.objects.filter(pk__in=rows.values("job")).values_list("pk", "submitted_at"))
    counted = [
        row
        for row in rows.order_by("at")
        if row.came is not None and row.came - submitted.get(row.job, row.at) > WAITED
    ]
    return Calibrated(
        now - span,
        _score("all", counted) if counted else None,
        _by(counted, [row.team for row in counted]),
        sorted(
            _by(counted, [size_class(row.gpus) for row in counted]),
            key=lambda one: ("1", "2-8", "9-64", "65+").index(one.name),
        ),
        _by(counted, [f"{row.at:%Y-%m-%d}" for row in counted]),
    )


def _by(rows: Sequence[StartTold], names: Sequence[str]) -> list[Score]:
    groups: dict[str, list[StartTold]] = {}
    for row, name in zip(rows, names, strict=True):
        groups.setdefault(name, []).append(row)
    return [_score(name, groups[name]) for name in sorted(groups)]


def _score(name: str, rows: Sequence[StartTold]) -> Score:
    came = [(row, row.came) for row in rows if row.came is not None]
    return Score(
        name,
        len(came),
        sum(at <= row.p50 for row, at in came) / len(came),
        sum(at <= row.p90 for row, at in came) / len(came),
        median(abs((at - row.p50).total_seconds()) for row, at in came),
        median((at - row.at).total_seconds() for row, at in came),
    )
