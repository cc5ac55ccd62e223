"""Every page of the portal, read off its addresses: whoever adds one has it looked at without doing more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tests.e2e.pages import RUNS
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROGRAMS = ("api/", "healthz", "readyz", "metrics")
"""Answers for programs, not pages."""
ADMIN = "admin/"
ADMIN_PAGES = ("index", "_changelist")
"""What of the administration is looked at: its start and its lists. The rest is its library's."""
SENT_TO = {
    "account_inactive": "where an account that was switched off ends up",
    "account_reauthenticate": "asked between two pages, when the last sign-in was long ago",
    "mfa_reauthenticate": "the same with a second factor",
    "mfa_authenticate": "a part of signing in",
}
"""Pages that nobody looks for."""
CHOICES = {
    "search": "?q=pages",
    "jobs-bulk": "?act=cancel&job={job_id}",
    "operate": "?hosts={name}",
}
"""What a page has to be asked, where it shows nothing by itself."""


def every_page(page: Page, system: System) -> dict[str, str]:
    """The pages that the signed-in person may see, by the name of their address: whatever answers a GET with a whole
    document. What only takes a POST, parts of pages, and what is another role's are none."""
    return {name: path for name, (path, _) in every_document(page, system).items()}


def every_document(page: Page, system: System) -> dict[str, tuple[str, str]]:
    """The same, each with its document as it comes from the server."""
    answers = {name: (path, _document(page, path)) for name, path in _addresses(system)}
    return {name: answer for name, answer in answers.items() if answer[1]}


def _document(page: Page, path: str) -> str:
    """Empty where the address answers with anything else."""
    answer = page.request.get(path, max_redirects=0)
    assert answer.status < 500, path
    if answer.status != 200:
        return ""
    text = answer.text()
    return text if "<!doctype html>" in text[:200].lower() else ""


def _addresses(system: System) -> Iterator[tuple[str, str]]:
    from django.urls import get_resolver

    known = _known(system)
    for route, name in _routes(get_resolver().url_patterns):
        if route.startswith(PROGRAMS) or name in SENT_TO:
            continue
        if route.startswith(ADMIN) and not name.endswith(ADMIN_PAGES):
            continue
        yield name, "/" + _filled(route, known) + CHOICES.get(name, "").format(**known)


def _routes(patterns: Iterable[Any], before: str = "") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _routes(pattern.url_patterns, route)
        else:
            yield route, pattern.name or ""


def _filled(route: str, known: dict[str, str]) -> str:
    """The route with something that there is for each of its parameters; 1 where it does not matter."""
    parts = route.split("/")
    for at, part in enumerate(parts):
        if part.startswith("<"):
            parts[at] = known.get(part.rstrip(">").rpartition(":")[2], "1")
    return "/".join(parts)


def _known(system: System) -> dict[str, str]:
    with system.client("oncall") as client:
        job = client.get("/api/v1/jobs", params={"q": RUNS}).json()["items"][0]
        host = client.get("/api/v1/nodes").json()["items"][0]
    return {"job_id": job["id"], "name": host["name"]}
