"""What every endpoint has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
from django.http import HttpRequest
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.accounts.permissions import Standing, standing_of
from portal.api import metrics
from portal.api.problems import invalid
from portal.api.query import NO_PARAMETERS, Query
from scheduler.fields import INVALID, FieldError, Record


class RecordRenderer(BaseRenderer):
    """Records (dataclasses, structs) and plain values as JSON."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else msgspec.json.encode(data)


class OneFormat(BaseContentNegotiation):
    """There is JSON and nothing else: whatever a client says that it accepts, that is what it gets."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        sent = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == sent), None)

    def select_renderer(self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: Any = None) -> Any:
        only = next(iter(renderers))
        return only, only.media_type


class Endpoint(APIView):
    """A view of the REST interface. ``query`` declares its parameters; a method that has none takes none."""

    renderer_classes = [RecordRenderer]
    content_negotiation_class = OneFormat
    query: dict[str, Query] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.parameters = self.query.get(request.method or "", NO_PARAMETERS).read(request.query_params)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answered = super().finalize_response(request, response, *args, **kwargs)
        metrics.count_request(type(self).__name__, request.method or "", answered.status_code)
        return answered

    @property
    def standing(self) -> Standing:
        return standing_of(cast(HttpRequest, self.request))

    def read_body(self, record: Record) -> dict[str, Any]:
        """The body as ``record`` declares it.

        Raises:
            Problem: 400.
        """
        errors: list[FieldError] = []
        found = record.read(self.request.data, "", errors)
        if found is INVALID or errors:
            raise invalid(errors)
        return cast("dict[str, Any]", found)
