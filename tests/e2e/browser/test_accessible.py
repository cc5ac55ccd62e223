"""axe on every page of every role, in light and in dark: nothing serious, nothing critical.

A page is looked at as the person who sees the most of it, and again as another one where that person's has something
that none before it had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.e2e.pages import ROLES, settled, sign_in, submit_some, visit
from tests.e2e.sitemap import every_document
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

GRAVE = ("serious", "critical")
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules whose answer depends on the scheme."""
OWN = {"rules": {"target-size": {"enabled": True}}}
"""WCAG 2.2's size of what is clicked, which axe looks at only when told to: for the pages that are our own, since the
search button of the administration's library is 18 pixels wide."""
SCHEMES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": {"type": "rule", "values": COLOURS}},
}
OTHERS = ("a job that waits", "/jobs/?q=nothing-is-called-so", "/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/", "/quotas/?at=1")
"""Other faces of the same pages: waiting, empty, not there."""
ELEMENT = re.compile(r"<(\w+)\b(?:[^>]*?\b(?:class|type|role)=\"([^\"]*)\")?")


def test_axe_finds_nothing_serious(page: Page, quiet_system: System) -> None:
    submit_some(quiet_system)
    looked_at, found = 0, []
    for path in pages_to_look_at(page, quiet_system):
        visit(page, path)
        found += faults(page, path)
        looked_at += 1
    assert not found, "\n".join(found)
    assert looked_at > 30, "the addresses were not understood"


def pages_to_look_at(page: Page, system: System) -> Iterator[str]:
    """The page is signed in as whom each is for."""
    seen: dict[str, set[str]] = {}
    for role in reversed(ROLES):  # who may do the most comes first
        page.context.clear_cookies()
        sign_in(page, system, role)
        for name, (path, document) in every_document(page, system).items():
            elements = {f"{tag} {kind}" for tag, kind in ELEMENT.findall(document)}
            if elements - seen.get(name, set()):
                seen[name] = seen.get(name, set()) | elements
                yield path
    yield from OTHERS


def test_axe_finds_nothing_serious_before_one_has_signed_in(page: Page, quiet_system: System) -> None:
    page.goto("/sign-in/")
    found = faults(page, "/sign-in/")
    page.get_by_label("User name").fill("nobody")
    page.get_by_label("Password").fill("nothing")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()
    assert [*found, *faults(page, "a refused sign-in")] == []


def faults(page: Page, name: str) -> list[str]:
    """One line for each grave finding, in both schemes."""
    settled(page)
    page.evaluate(AXE_SCRIPT)
    found = []
    for scheme, options in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        asked = {"resultTypes": ["violations"], **({} if name.startswith("/admin/") else OWN), **options}
        answer = page.evaluate("options => axe.run(options)", asked)
        found += [_told(name, scheme, one) for one in answer["violations"] if one["impact"] in GRAVE]
    return found


def _told(name: str, scheme: str, violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    first = nodes[0]
    return f"{name} ({scheme}): {violation['id']}, {len(nodes)} times: {first['html'][:200]}: {first['failureSummary']}"
