"""`nodes`: the hosts, and what on-call wants of them."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import cast

from django.utils.decorators import method_decorator
from django.views.decorators.gzip import gzip_page
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.models import Node as NodeModel
from nodes.services import UnknownNode
from portal import operations
from portal.accounts.models import User
from portal.api.answers import BlastRadius, NodeHealth, NodePage, NodeWish
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import Problem, not_found
from portal.api.query import Query, Several, one_of
from portal.operations import Kind, Where
from scheduler import clock, selectors
from scheduler.core.blast import Blast, words
from scheduler.core.types import HostState
from scheduler.fields import REQUIRED, Choice, Record, Text
from scheduler.picture import picture
from scheduler.store.base import StoreUnavailable


class YesNo(StrEnum):
    YES = "1"
    NO = "0"


_NAMES = (Several(Text(64)), ())
WANTED = Query({"az": _NAMES, "rack": _NAMES, "gpu_type": _NAMES, "state": (one_of(Choice(HostState)), ())})
REASON = Record({"reason": (Text(500), REQUIRED)})
DRY_RUN = Query({"dry_run": (Choice(YesNo), YesNo.NO)})

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


@method_decorator(gzip_page, name="dispatch")
class Nodes(Endpoint):
    query = {"GET": WANTED}

    @describe("listNodes", "The hosts, by zone, rack and name", NodePage, query=WANTED, problems=(503,))
    def get(self, request: Request) -> Response:
        wanted = {name: set(values) for name, values in self.parameters.items() if values}
        rows = [
            row
            for row in selectors.nodes(picture(), clock.now_ms())
            if all(getattr(row, name) in values for name, values in wanted.items())
        ]
        return Response(NodePage(dict(Counter(row.state for row in rows)), rows))


class Node(Endpoint):
    @describe("getNode", "One host with what is on it", selectors.NodeDetail, problems=(404, 503))
    def get(self, request: Request, name: str) -> Response:
        return Response(_detail(name))


class Health(Endpoint):
    @describe(
        "getNodeHealth",
        "What a node's GPUs read, the faults that their driver told, and how the node's health changed",
        NodeHealth,
        problems=(404,),
    )
    def get(self, request: Request, name: str) -> Response:
        if not _NAME.fullmatch(name) or not NodeModel.objects.filter(pk=name, removed_at=None).exists():
            raise not_found("such node")
        told = selectors.telemetry(name), selectors.gpu_faults(name), selectors.health_changes(name)
        return Response(NodeHealth(name, *told))


class _Operation(Endpoint):
    """Something that on-call does to a node. Done again, nothing changes. ``kind`` is what."""

    query = {"POST": DRY_RUN}
    kind: Kind

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if not self.standing.operates_nodes:
            raise Problem(403, "Only on-call and administrators operate nodes.")

    @property
    def dry_run(self) -> bool:
        return self.parameters["dry_run"] is YesNo.YES

    def operate(self, request: Request, name: str, reason: str) -> Blast | None:
        """Do it, unless this is a dry run; answers the radius as it is right before."""
        if not _NAME.fullmatch(name) or not NodeModel.objects.filter(pk=name, removed_at=None).exists():
            raise not_found("such node")
        if self.dry_run:
            return operations.radius(self.kind, [name])
        try:
            return operations.operate(cast(User, request.user), self.kind, Where((name,), name), reason)
        except UnknownNode as error:
            raise not_found("such node") from error
        except operations.StillAlive as error:
            raise Problem(409, f"{error}.", kind="still-alive") from error

    def wish(self, request: Request, name: str, reason: str) -> Response:
        radius = self.operate(request, name, reason)
        node = NodeModel.objects.get(pk=name)
        told = blast_radius(name, radius, self.dry_run) if radius else None
        return Response(NodeWish(name, node.cordon_reason, node.drain_reason, self.dry_run, told), status=202)


class Cordon(_Operation):
    kind = Kind.CORDON

    @describe(
        "cordonNode",
        "Give a node no new work",
        NodeWish,
        status=202,
        body=REASON.schema(),
        query=DRY_RUN,
        problems=(404, 409),
    )
    def post(self, request: Request, name: str) -> Response:
        return self.wish(request, name, self.read_body(REASON)["reason"])


class Uncordon(_Operation):
    kind = Kind.UNCORDON

    @describe(
        "uncordonNode",
        "Give a node work again: end its cordon and its drain",
        NodeWish,
        status=202,
        query=DRY_RUN,
        problems=(403, 404, 409),
    )
    def post(self, request: Request, name: str) -> Response:
        return self.wish(request, name, "")


class Release(_Operation):
    kind = Kind.PARDON

    @describe(
        "releaseNode",
        "End a node's quarantine: what failed there until now is not held against it any more",
        NodeWish,
        status=202,
        body=REASON.schema(),
        query=DRY_RUN,
        problems=(404, 409),
    )
    def post(self, request: Request, name: str) -> Response:
        return self.wish(request, name, self.read_body(REASON)["reason"])


class Remove(_Operation):
    kind = Kind.REMOVE

    @describe(
        "removeNode",
        "Take a node that is gone for good out of the fleet; a rebuilt host may then join under its name",
        NodeWish,
        status=202,
        body=REASON.schema(),
        query=DRY_RUN,
        problems=(404, 409, 503),
    )
    def post(self, request: Request, name: str) -> Response:
        return self.wish(request, name, self.read_body(REASON)["reason"])


class Drain(_Operation):
    kind = Kind.DRAIN

    @describe(
        "drainNode",
        "Give a node no new work and move what runs there",
        BlastRadius,
        status=202,
        body=REASON.schema(),
        query=DRY_RUN,
        problems=(404, 409, 503),
    )
    def post(self, request: Request, name: str) -> Response:
        reason = self.read_body(REASON)["reason"]
        radius = self.operate(request, name, reason)
        if radius is None:
            raise StoreUnavailable("the radius cannot be told")
        return Response(blast_radius(name, radius, self.dry_run), status=202)


def _detail(name: str) -> selectors.NodeDetail:
    found = selectors.node(picture(), name, clock.now_ms())
    if found is None:
        raise not_found("such node")
    return found


def blast_radius(name: str, radius: Blast, dry_run: bool) -> BlastRadius:
    return BlastRadius(
        name=name,
        dry_run=dry_run,
        words=words(radius),
        hosts=radius.hosts,
        idle_gpus=radius.idle_gpus,
        jobs=radius.jobs,
        gpus=radius.gpus,
        stays=radius.stays,
        fits_elsewhere=radius.fits,
        without_checkpoint=radius.jobs - radius.saves,
        lost_gpu_hours=round(radius.lost_gpu_ms / 3_600_000, 2),
        teams=list(radius.teams),
        hits=list(radius.hits),
    )
