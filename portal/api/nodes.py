"""`nodes`: the hosts, and what on-call wants of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import structlog
from django.utils.decorators import method_decorator
from django.views.decorators.gzip import gzip_page
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.models import Node as NodeModel
from nodes.services import UnknownNode
from portal.api.answers import BlastRadius, NodePage, NodeWish
from portal.api.description import describe
from portal.api.endpoint import Endpoint
from portal.api.problems import Problem, not_found
from portal.api.query import Query, Several, one_of
from scheduler import clock, intents, selectors
from scheduler.core.types import HostState
from scheduler.fields import REQUIRED, Choice, Record, Text
from scheduler.picture import picture

log = structlog.get_logger(__name__)


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


class _Operation(Endpoint):
    """Something that on-call does to a node. Done again, nothing changes."""

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if not self.standing.operates_nodes:
            raise Problem(403, "Only on-call and administrators operate nodes.")

    def operate(self, request: Request, name: str, change: Callable[..., NodeModel], *reason: str) -> NodeModel:
        if not _NAME.fullmatch(name):
            raise not_found("such node")
        try:
            node = change(name, *reason)
        except UnknownNode as error:
            raise not_found("such node") from error
        by = request.user.get_username()
        log.info("a node was operated", act=change.__name__, node=name, by=by, reason=" ".join(reason))
        return node


class Cordon(_Operation):
    @describe("cordonNode", "Give a node no new work", NodeWish, status=202, body=REASON.schema(), problems=(404,))
    def post(self, request: Request, name: str) -> Response:
        reason = self.read_body(REASON)["reason"]
        return Response(_wish(self.operate(request, name, intents.cordon_node, reason)), status=202)


class Uncordon(_Operation):
    @describe(
        "uncordonNode",
        "Give a node work again: end its cordon and its drain",
        NodeWish,
        status=202,
        problems=(403, 404),
    )
    def post(self, request: Request, name: str) -> Response:
        return Response(_wish(self.operate(request, name, intents.uncordon_node)), status=202)


class Drain(_Operation):
    query = {"POST": DRY_RUN}

    @describe(
        "drainNode",
        "Give a node no new work and move what runs there",
        BlastRadius,
        status=202,
        body=REASON.schema(),
        query=DRY_RUN,
        problems=(404, 503),
    )
    def post(self, request: Request, name: str) -> Response:
        reason = self.read_body(REASON)["reason"]
        dry_run = self.parameters["dry_run"] is YesNo.YES
        radius = _blast_radius(_detail(name), dry_run)
        if not dry_run:
            self.operate(request, name, intents.drain_node, reason)
        return Response(radius, status=202)


def _detail(name: str) -> selectors.NodeDetail:
    found = selectors.node(picture(), name, clock.now_ms())
    if found is None:
        raise not_found("such node")
    return found


def _wish(node: NodeModel) -> NodeWish:
    return NodeWish(node.name, node.cordon_reason, node.drain_reason)


def _blast_radius(found: selectors.NodeDetail, dry_run: bool) -> BlastRadius:
    held = list(found.held_by)
    return BlastRadius(
        name=found.row.name,
        dry_run=dry_run,
        jobs=len(held),
        gpus=sum(job["gpus"] for job in held),
        without_checkpoint=sum(not job["checkpoints"] for job in held),
        held_by=held,
    )
