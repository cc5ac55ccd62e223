"""`/metrics` for Prometheus: what this process answered, and the cluster as it sees it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Gauge, generate_latest

from scheduler.picture import picture

_requests = Counter("gangway_api_requests_total", "Answers of the REST interface.", ["endpoint", "method", "status"])
_unreadable = Gauge("gangway_unreadable_keys", "Keys of the live state that are no records; any is an alarm.")
_unreadable.set_function(lambda: len(picture().garbled))
_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_request(endpoint: str, method: str, status: int) -> None:
    # A method is what the client calls it: only known ones become a label of their own.
    _requests.labels(endpoint, method if method in _KNOWN_METHODS else "other", str(status)).inc()


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
