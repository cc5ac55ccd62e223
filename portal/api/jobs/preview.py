"""`jobs/preview`: what would become of a job, before it is submitted."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from portal import foreseeing, submission
from portal.accounts.models import User
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import invalid
from scheduler import clock, outlook_words, requests
from scheduler.core.alternatives import Alternative
from scheduler.core.preview import Outlook, Place, Verdict
from scheduler.foresight import Foresight


class PlaceInRack(msgspec.Struct, frozen=True):
    rack: str
    hosts: int
    gpus: int


class Seat(msgspec.Struct, frozen=True):
    """GPUs on one node; which of them is decided at the start."""

    node: str
    gpus: int


class Prospect(msgspec.Struct, frozen=True):
    """Where the gang would sit. ``slowdown`` is how many times longer a step takes than in the tightest place."""

    gpu_type: str
    az: str
    racks: list[PlaceInRack]
    hosts: list[Seat]
    link: str
    link_gigabytes_per_second: float
    slowdown: float


class Level(msgspec.Struct, frozen=True):
    """A node of the quota tree above the job, in GPUs; ``ceiling`` null: none."""

    name: str
    held: int
    with_job: int
    floor: int
    ceiling: int | None
    share: int


class QuotaProspect(msgspec.Struct, frozen=True):
    """``band``: ``floor`` (guaranteed at every level), ``partly``, ``burst``."""

    gpu_type: str
    band: str
    words: str
    levels: list[Level]


class Victim(msgspec.Struct, frozen=True):
    """A job that would be stopped; ``job`` is null where it is another team's."""

    job: str | None
    team: str
    gpus: int
    cause: str
    lost_gpu_seconds: float


class Risk(msgspec.Struct, frozen=True):
    """How likely the job is to lose its place: ``low``, ``medium``, ``high``, with what that rests on."""

    reclaim: str
    words: list[str]


class Instead(msgspec.Struct, frozen=True):
    """One change of the body, tried by the planner."""

    change: dict[str, Any]
    words: str
    verdict: str
    starts_at: datetime | None
    slowdown: float | None
    stops_jobs: int


class Preview(msgspec.Struct, frozen=True):
    """What would become of the job at ``revision`` of the live state.

    ``verdict`` is ``starts`` (now), ``waits`` or ``refused``. ``eta`` is the start at the latest, by the limits of what
    runs; null where none is promised yet, and then ``earliest`` is when GPUs may come free.
    """

    revision: int
    verdict: str
    feasible: bool
    reason: str | None
    words: str
    eta: datetime | None
    earliest: datetime | None
    placement: Prospect | None
    quota: QuotaProspect | None
    victims: list[Victim]
    preemption: Risk | None
    alternatives: list[Instead]


class PreviewJob(Endpoint):
    @describe(
        "previewJob",
        "What would become of a job, without submitting it",
        Preview,
        body=requests.schema(),
        problems=(503,),
    )
    def post(self, request: Request) -> Response:
        try:
            asked, seen, now_ms = foreseeing.foresee(cast(User, request.user), request.data)
        except submission.Invalid as error:
            raise invalid(error.errors) from error
        return Response(_preview(seen, asked.team, now_ms))


def _preview(seen: Foresight, team: str, now_ms: int) -> Preview:
    outlook = seen.outlook
    return Preview(
        revision=seen.revision,
        verdict=outlook.verdict.value,
        feasible=outlook.verdict is not Verdict.REFUSED,
        reason=outlook.reason.value if outlook.reason is not None else None,
        words=f"{outlook_words.headline(outlook, now_ms)}. {outlook.words}".strip(),
        eta=_moment(outlook.start_ms),
        earliest=_moment(outlook.earliest_ms) if outlook.start_ms is None else None,
        placement=_prospect(outlook.place) if outlook.place is not None else None,
        quota=_quota(outlook),
        victims=[
            Victim(one.job or None, one.team, one.gpus, one.cause.value, one.gpus * one.lost_ms / 1000)
            for one in outlook.victims
        ],
        preemption=_risk(outlook, team),
        alternatives=[_instead(one, now_ms) for one in seen.alternatives],
    )


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else clock.to_datetime(at_ms)


def _prospect(place: Place) -> Prospect:
    return Prospect(
        gpu_type=place.gpu_type,
        az=place.az,
        racks=[PlaceInRack(*rack) for rack in place.racks],
        hosts=[Seat(*host) for host in place.hosts],
        link=place.speed.link,
        link_gigabytes_per_second=place.speed.gigabytes,
        slowdown=round(place.speed.slowdown, 2),
    )


def _quota(outlook: Outlook) -> QuotaProspect | None:
    stands = outlook.standing
    if stands is None:
        return None
    levels = [Level(one.name, one.held, one.with_job, one.floor, one.ceiling, one.share) for one in stands.levels]
    return QuotaProspect(stands.gpu_type, stands.band.value, outlook_words.band(stands), levels)


def _risk(outlook: Outlook, team: str) -> Risk | None:
    if outlook.exposure is None:
        return None
    return Risk(outlook.exposure.risk.value, outlook_words.safety(outlook.exposure, team))


def _instead(one: Alternative, now_ms: int) -> Instead:
    field, value = outlook_words.change(one)
    outlook = one.outlook
    return Instead(
        change={field: value},
        words=outlook_words.alternative(one, now_ms),
        verdict=outlook.verdict.value,
        starts_at=_moment(outlook.start_ms),
        slowdown=round(outlook.place.speed.slowdown, 2) if outlook.place is not None else None,
        stops_jobs=len(outlook.victims),
    )
